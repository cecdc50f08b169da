package run

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// TestAttemptSeed: an attempt begins with a whole copy of the latest one that has a checkpoint, not with what is left of a
// copy by a process that was killed.
func TestAttemptSeed(t *testing.T) {
	parent := t.TempDir()
	const checkpoint = "rl_model_512_steps.safetensors"
	begun := time.Now().Add(-time.Hour)
	for folder, age := range map[string]time.Duration{"a_1": 2, "b_1": 1, ".c_1": 0} {
		path := filepath.Join(parent, folder, checkpoint)
		if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		envstest.Write(t, path, folder)
		if err := os.Chtimes(path, begun, begun.Add(-age*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(parent, "c_1"), 0o755); err != nil { // the folder of the killed process
		t.Fatal(err)
	}
	c := Config{Env: "classic/CartPole-v1"}
	if err := c.attemptSeed(parent, "c"); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(parent, "c_2"); c.Folder != want || c.Resume != filepath.Join(want, checkpoint) || envstest.Read(t, c.Resume) != "b_1" {
		t.Errorf("folder %s resumes %s, of %s, want c_2 with the checkpoint of b_1", c.Folder, c.Resume, envstest.Read(t, c.Resume))
	}
	if left, _ := filepath.Glob(filepath.Join(parent, ".*")); len(left) != 1 {
		t.Errorf("hidden folders %v, want only that of the killed process", left)
	}
}
