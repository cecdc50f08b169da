package clitest

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/trainer/cli"
)

// Patience limits waits on a busy machine.
const Patience = 2 * time.Minute

// ChildVariable makes this test binary run the trainer's command line.
const ChildVariable = "KUBERNASIUM_TRAINER_CHILD"

// PatientVariable makes the child ignore signals outside the time in which the trainer handles them. A test can
// then send a signal repeatedly once the child has reported that it is patient.
const PatientVariable = "KUBERNASIUM_TRAINER_PATIENT"

// Main runs the tests of a package or, in a child process, the command line.
func (r Root) Main(m *testing.M) {
	if os.Getenv(PatientVariable) != "" {
		signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM)
		fmt.Println("patient")
	}
	if os.Getenv(ChildVariable) != "" {
		os.Exit(cli.Main(r()))
	}
	os.Exit(runTests(m))
}

// runTests isolates the tests from the user's kubeconfig, to which `kwok up` adds contexts.
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

// CancelWhen returns a context that ends when met returns true, or after Patience at the latest.
func CancelWhen(t *testing.T, met func() bool) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	go func() {
		for ctx.Err() == nil && !met() {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	return ctx
}
