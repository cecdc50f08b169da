package all_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// roles are the files of every environment; see CONTRIBUTING.md.
var roles = []string{
	"baselines.go", "clone.go", "doc.go", "dynamics.go", "features.go", "generator.go", "observe.go", "options.go",
	"register.go", "render.go", "reward.go", "task.go",
}

// mostLines bounds an environment, beside its domain packages: lines of Go without tests and without the
// package comment. Bounds above 400 are of problems with more: a bound may fall, and not rise.
var mostLines = map[string]int{
	"example":          400,
	"classic":          500,
	"gang":             1185,
	"lra/online":       400,
	"lra/placement":    390,
	"lra/hierarchical": 480,
	"lra/pricing":      460,
	"podsched/balance": 1940, // 157 of them play recordings, 56 decide Greedy in linear time, 34 show costs
	"podsched/gpu":     1525,
	"vpa":              1830, // three ids, and a recommender for running clusters
}

// TestEnvironmentsAreShort counts the lines of environments, and looks for the files of their roles.
func TestEnvironmentsAreShort(t *testing.T) {
	for folder, most := range mostLines {
		files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(folder), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(files), err)
		}
		lines, names := 0, []string{}
		for _, path := range files {
			name := filepath.Base(path)
			if names = append(names, name); name == "doc.go" || len(name) > 8 && name[len(name)-8:] == "_test.go" {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines += bytes.Count(text, []byte("\n"))
		}
		if lines > most {
			t.Errorf("envs/%s has %d lines beside tests and doc.go, want at most %d: move its domain to a package of its own", folder, lines, most)
		}
		for _, role := range roles {
			if !slices.Contains(names, role) {
				t.Errorf("envs/%s has no %s", folder, role)
			}
		}
		t.Logf("envs/%s: %d lines", folder, lines)
	}
}
