package gang_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// dataDir returns the folder of the public data of this environment, or skips the test.
func dataDir(tb testing.TB) string {
	tb.Helper()
	return envstest.Data(tb, "gang", "profile/workload_profiling.csv")
}
