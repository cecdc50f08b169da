package core

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// TestSignalSaves sends Ctrl-C to a training in its own process and resumes from the
// checkpoint that its message names; so with two trainings at one time.
func TestSignalSaves(t *testing.T) {
	for _, tc := range []struct {
		name        string
		more        []string
		checkpoints int
	}{
		{"one", nil, 1},
		{"seeds", []string{"--seeds", "1..2", "--n-jobs", "2"}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			folder := t.TempDir()
			args := append([]string{"train", "--algo", "a2c", "--env", "classic/CartPole-v1", "-n", "1000000000",
				"--eval-freq", "0", "--save-freq", "0", "-f", folder}, tc.more...)
			cmd := exec.Command(os.Args[0], args...)
			cmd.Env = append(os.Environ(), clitest.ChildVariable+"=1")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			waitForEpisodes(t, cmd, folder, tc.checkpoints)
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 130 {
				t.Fatalf("the interrupted training: %v, want exit status 130\n%s", err, stderr.String())
			}
			found := regexp.MustCompile(`interrupted at (\d+) timesteps; go on with --resume (\S+)`).FindAllStringSubmatch(stderr.String(), -1)
			if len(found) != tc.checkpoints {
				t.Fatalf("%d checkpoints named, want %d:\n%s", len(found), tc.checkpoints, stderr.String())
			}
			for _, m := range found {
				f, err := models.ReadFile(m[2])
				if err != nil {
					t.Fatal(err)
				}
				n := f.Meta.Timesteps
				if n <= 0 || n%40 != 0 { // 8 environments, 5 steps
					t.Errorf("%d timesteps, want whole rollouts of 40", n)
				}
			}
			mustExecute(t, "eval", "--model", found[0][2], "--episodes", "2")
		})
	}
}

// waitForEpisodes returns when that many trainings have finished an episode.
func waitForEpisodes(t *testing.T, cmd *exec.Cmd, folder string, trainings int) {
	t.Helper()
	for deadline := time.Now().Add(clitest.Patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if clitest.WithEpisodes(folder) == trainings {
			return
		}
	}
	_ = cmd.Process.Signal(syscall.SIGKILL) // the test has failed
	_ = cmd.Wait()
	t.Fatalf("%d trainings did not begin within %v", trainings, clitest.Patience)
}
