package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// TestSignalStatus interrupts commands in processes of their own: the exit status is 130.
func TestSignalStatus(t *testing.T) {
	for _, tc := range []struct {
		name   string
		signal os.Signal
		args   []string
	}{
		{"imitate", os.Interrupt, []string{"train", "--algo", "ppo", "--env", "test/Endless-v0", "--imitate", "one", "--imitate-steps", "1000000000", "-f", t.TempDir()}},
		{"compare", os.Interrupt, []string{"compare", "--env", "test/Endless-v0", "--episodes", "2"}},
		{"standard input", syscall.SIGTERM, []string{"reproduce", "vpa", "--usage", "-"}},
		{"gang profile", syscall.SIGTERM, []string{"gang", "profile", "--env-kwargs", "steps:100000", "--ages", "100000"}},
		{"gang forecast", syscall.SIGTERM, []string{"gang", "forecast", "--draws", "100000000"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], tc.args...)
			cmd.Env = append(os.Environ(), clitest.ChildVariable+"=1", clitest.PatientVariable+"=1")
			if _, err := cmd.StdinPipe(); err != nil { // which Wait closes
				t.Fatal(err)
			}
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatalf("the first line is %q, %v", line, err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			deadline := time.After(clitest.Patience)
			again := time.NewTicker(200 * time.Millisecond)
			defer again.Stop()
			for {
				select {
				case <-again.C: // the first ones may come before the process attends to signals
					_ = cmd.Process.Signal(tc.signal)
					continue
				case <-deadline:
					_ = cmd.Process.Kill()
					<-ended
					t.Fatalf("the command did not end within %v", clitest.Patience)
				case err := <-ended:
					var exit *exec.ExitError
					if !errors.As(err, &exit) || exit.ExitCode() != cli.StatusInterrupted || !strings.Contains(stderr.String(), "trainer: interrupted") {
						t.Errorf("%v, want exit status 130 and a line about the interrupt\n%s", err, stderr.String())
					}
				}
				return
			}
		})
	}
}
