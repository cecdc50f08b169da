package gang_test

import (
	"os"
	"path/filepath"
	"testing"
)

// dataDir returns the folder of the public data of this environment, or skips the test.
func dataDir(tb testing.TB) string {
	tb.Helper()
	root := os.Getenv("KUBERNASIUM_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "data") // beside the repository's root
	}
	dir := filepath.Join(root, "gang")
	if _, err := os.Stat(filepath.Join(dir, "profile", "workload_profiling.csv")); err != nil {
		tb.Skipf("%v: set KUBERNASIUM_DATA to the folder that holds gang/ to enable this test", err)
	}
	return dir
}
