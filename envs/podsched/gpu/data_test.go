package gpu_test

import (
	"os"
	"path/filepath"
	"testing"
)

// dataDir returns the folder of the public trace, or skips the test.
func dataDir(tb testing.TB) string {
	tb.Helper()
	root := os.Getenv("KUBERNASIUM_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "..", "shared", "data") // beside the repository's root
	}
	dir := filepath.Join(root, "openb")
	if _, err := os.Stat(filepath.Join(dir, "openb_node_list_gpu_node.csv")); err != nil {
		tb.Skipf("%v: set KUBERNASIUM_DATA to the folder that holds openb/ to enable this test", err)
	}
	return dir
}
