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

// Patience bounds what is waited for on a busy machine.
const Patience = 2 * time.Minute

// ChildVariable makes this test binary the trainer itself.
const ChildVariable = "KUBERNASIUM_TRAINER_CHILD"

// PatientVariable makes signals that come before or after those that the trainer heeds do nothing, so
// that a test can send one again and again once the process has said that it is patient.
const PatientVariable = "KUBERNASIUM_TRAINER_PATIENT"

// Main runs the tests of a package, or in the process of a child the command line.
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

// CancelWhen returns a context that ends when met says so, or at last after patience.
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
