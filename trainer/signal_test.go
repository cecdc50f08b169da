package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/models"
)

// patience bounds what is waited for on a busy machine.
const patience = 2 * time.Minute

// childVariable makes this test binary the trainer itself.
const childVariable = "KUBERNASIUM_TRAINER_CHILD"

// patientVariable makes signals that come before or after those that the trainer heeds do nothing, so
// that a test can send one again and again once the process has said that it is patient.
const patientVariable = "KUBERNASIUM_TRAINER_PATIENT"

func TestMain(m *testing.M) {
	if os.Getenv(patientVariable) != "" {
		signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM)
		fmt.Println("patient")
	}
	if os.Getenv(childVariable) != "" {
		os.Exit(runProcess(newRoot()))
	}
	os.Exit(runTests(m))
}

// runTests keeps the tests from the kubeconfig of who runs them, to which `kwok up` adds.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "trainer")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv("KUBECONFIG", filepath.Join(dir, "config")); err != nil {
		panic(err)
	}
	return m.Run()
}

// TestSignalSaves sends Ctrl-C to a training in a process of its own and goes on from the
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
			cmd.Env = append(os.Environ(), childVariable+"=1")
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
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if withEpisodes(folder) == trainings {
			return
		}
	}
	_ = cmd.Process.Signal(syscall.SIGKILL) // the test has failed
	_ = cmd.Wait()
	t.Fatalf("%d trainings did not begin within %v", trainings, patience)
}

// withEpisodes returns how many trainings in the folder have finished an episode.
func withEpisodes(folder string) (trainings int) {
	one, _ := filepath.Glob(filepath.Join(folder, "*", "*", "monitor.csv")) // the pattern is right
	many, _ := filepath.Glob(filepath.Join(folder, "*", "*", "seed_*", "monitor.csv"))
	for _, path := range append(one, many...) {
		if text, err := os.ReadFile(path); err == nil && strings.Count(string(text), "\n") > 2 {
			trainings++
		}
	}
	return trainings
}

// cancelWhen returns a context that ends when met says so, or at last after patience.
func cancelWhen(t *testing.T, met func() bool) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	go func() {
		for ctx.Err() == nil && !met() {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	return ctx
}
