//go:build linux

package tune

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/tools/chaos/powerfs"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// TestJournalSurvivesPowerLoss: the journal of a study is on disk, with its folder and every result, from the moment on
// that its functions return.
func TestJournalSurvivesPowerLoss(t *testing.T) {
	at, left := t.TempDir(), t.TempDir()
	f, err := powerfs.Mount(at, "", 0)
	if err != nil {
		t.Skipf("needs root and /dev/fuse: %v", err)
	}
	defer func() {
		if err := f.Unmount(); err != nil {
			t.Error(err)
		}
	}()
	folder, err := run.NewFolder(filepath.Join(at, "logs", "tune"), "env")
	if err != nil {
		t.Fatal(err)
	}
	j, err := createJournal[string, int](folder, journalName, "study")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.close(); err != nil {
			t.Error(err)
		}
	}()
	for k, want := range []string{"\"study\"\n", "\"study\"\n7\n"} {
		if k == 1 {
			if err := j.add(7); err != nil {
				t.Fatal(err)
			}
		}
		image := filepath.Join(left, string(rune('0'+k)))
		if err := f.Image(image, powerfs.Strict); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(image, "logs", "tune", "env_1", journalName)); err != nil || string(got) != want {
			t.Errorf("a power loss leaves %q, %v, want %q", got, err, want)
		}
	}
}
