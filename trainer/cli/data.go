package cli

import (
	"os"
	"path/filepath"
)

// DataVariable names the environment variable with the folder of public data.
const DataVariable = "KUBERNASIUM_DATA"

// DataFolder returns the folder of public data: the environment variable's value, or else ../shared/data beside
// the module's root if it exists, or "".
func DataFolder() string {
	if dir := os.Getenv(DataVariable); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			data := filepath.Join(dir, "..", "shared", "data")
			if info, err := os.Stat(data); err == nil && info.IsDir() {
				return filepath.Clean(data)
			}
			return ""
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
