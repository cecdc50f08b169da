//go:build unix

package tune

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// line is a line of a journal.
type line struct {
	Worker string                     `json:"worker_id"`
	Trial  int                        `json:"trial_id"`
	Attr   map[string]json.RawMessage `json:"user_attr"`
}

// lines reads the attributes of a journal, up to a line that is being written.
func lines(t *testing.T, path string) []line {
	t.Helper()
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []line
	for s := bufio.NewScanner(f); s.Scan(); {
		var l line
		if json.Unmarshal(s.Bytes(), &l) == nil && l.Attr != nil {
			all = append(all, l)
		}
	}
	return all
}

// open returns the claims of a process without a result, by trial and attribute.
func open(t *testing.T, path string, pid int) map[string]bool {
	t.Helper()
	claims, of := map[string]bool{}, fmt.Sprintf("-%d-", pid)
	for _, l := range lines(t, path) {
		for name := range l.Attr {
			if kind, rung, ok := strings.Cut(name, "_"); ok {
				key := fmt.Sprint(l.Trial, " ", rung)
				if kind == "claim" && strings.Contains(l.Worker, of) {
					claims[key] = true
				} else if kind == "result" {
					delete(claims, key)
				}
			}
		}
	}
	return claims
}

// TestSharedStudy: three processes share a study, and one is killed in the middle of a trial. The others
// end it: every trial of every rung has one result, the killed one's trial too, and the study ends with the
// trials, means and best of one process alone.
func TestSharedStudy(t *testing.T) {
	args := tuneArgs("ppo", t.TempDir(), "--n-jobs", "1", "-n", "4096")
	want := tuneResultOf(t, args...)

	file := filepath.Join(t.TempDir(), "study.journal")
	shared := append(args, "--study", file, "--lease", "3s")
	victim, _ := clitest.Process(t, shared...)
	pid := victim.Process.Pid
	var left map[string]bool
	clitest.KillWhen(t, victim, file, func() bool {
		left = open(t, file, pid)
		return len(left) > 0
	})
	if len(left) != 1 {
		t.Fatalf("the killed process held %v, want one trial", left)
	}
	for i, out := range clitest.Together(t, 2, shared...) {
		got := clitest.Decode[tuneResult](t, string(out))
		for k := range got.Trials {
			got.Trials[k].Folder = ""
		}
		got.Best.Folder, got.Folder, got.Conf = "", want.Folder, want.Conf
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("process %d (-alone +shared):\n%s", i, diff)
		}
	}
	results := map[string]string{}
	for _, l := range lines(t, file) {
		for name := range l.Attr {
			if rung, ok := strings.CutPrefix(name, "result_"); ok {
				key := fmt.Sprint(l.Trial, " ", rung)
				if results[key] != "" {
					t.Errorf("two results of trial and rung %s", key)
				}
				results[key] = l.Worker
			}
		}
	}
	if len(results) != 7 {
		t.Errorf("%d results, want 4 + 2 + 1", len(results))
	}
	for key := range left {
		if worker := results[key]; worker == "" || strings.Contains(worker, fmt.Sprintf("-%d-", pid)) {
			t.Errorf("the killed process's trial and rung %s has a result of %q, want one of another process", key, worker)
		}
	}
}

// TestSharedStudyRefuses: other arguments do not join a study, and what is no study stays as it is.
func TestSharedStudyRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "study.journal")
	first := tuneResultOf(t, tuneArgs("a2c", t.TempDir(), "--study", file)...)
	if again := tuneResultOf(t, tuneArgs("a2c", t.TempDir(), "--study", file)...); !cmp.Equal(first, again) {
		t.Errorf("a complete study gives another result:\n%s", cmp.Diff(first, again))
	}
	other := envstest.TempFile(t, "other.journal", `{"op_code":0,"worker_id":"w","study_name":"x","directions":[1]}`+"\n")
	for want, args := range map[string][]string{
		"another study": tuneArgs("a2c", t.TempDir(), "--study", file, "--n-trials", "5"),
		"no study of":   tuneArgs("a2c", t.TempDir(), "--study", other),
		"--lease 0s":    tuneArgs("a2c", t.TempDir(), "--study", file, "--lease", "0s"),
		"has no effect": {"tune", "--resume", t.TempDir(), "--study", file},
	} {
		if _, _, err := execute(t, t.Context(), args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("trainer %s: %v, want an error with %q", strings.Join(args, " "), err, want)
		}
	}
}
