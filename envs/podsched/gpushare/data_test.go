package gpushare_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// dataDir returns the folder of the public trace, or skips the test.
func dataDir(tb testing.TB) string {
	tb.Helper()
	return envstest.Data(tb, "openb", "openb_node_list_gpu_node.csv")
}
