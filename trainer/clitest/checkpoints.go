package clitest

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/models"
)

// Checkpoints returns the checkpoints of a folder before end timesteps, sorted by timesteps.
func Checkpoints(t *testing.T, dir string, end int) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "rl_model_*_steps.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	at := func(path string) int {
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "rl_model_"), "_steps.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	found = slices.DeleteFunc(found, func(path string) bool { return at(path) >= end })
	slices.SortFunc(found, func(a, b string) int { return at(a) - at(b) })
	if len(found) == 0 {
		t.Fatalf("no checkpoint before %d timesteps in %s", end, dir)
	}
	return found
}

// Timesteps returns the timesteps of a model file.
func Timesteps(t *testing.T, path string) int {
	t.Helper()
	f, err := models.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(f.Meta.Timesteps)
}
