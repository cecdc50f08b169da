package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The tests play the control plane themselves: this one says how.
const playEnv = "KUBERNASIUM_LAUNCH_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(playEnv) {
	case "":
		os.Exit(m.Run())
	case "ready":
		fmt.Printf(`{"url": "https://127.0.0.1:1", "pid": %d, "components": [%q]}`+"\n", os.Getpid(), os.Args[len(os.Args)-1])
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "crash":
		fmt.Printf(`{"pid": %d}`+"\n", os.Getpid())
		os.Exit(3)
	case "refuse":
		fmt.Fprintln(os.Stderr, "no such thing")
		os.Exit(1)
	case "hang":
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

func TestStartAndStop(t *testing.T) {
	t.Setenv(playEnv, "ready")
	p, err := Start(t.Context(), Options{Binary: os.Args[0], Args: []string{"last"}})
	if err != nil {
		t.Fatal(err)
	}
	if p.URL != "https://127.0.0.1:1" || p.PID == os.Getpid() || len(p.Components) != 1 || p.Components[0] != "last" {
		t.Errorf("ready line = %+v, want the child's, with the flag that it was given", p.Ready)
	}
	for range 2 { // stopping again does no harm
		if err := p.Stop(); err != nil {
			t.Errorf("Stop = %v, want nil", err)
		}
	}
	select {
	case <-p.Ended():
	default:
		t.Error("Ended is open after Stop")
	}
}

func TestStartErrors(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		t.Setenv(playEnv, "refuse")
		var log bytes.Buffer
		p, err := Start(t.Context(), Options{Binary: os.Args[0], Stderr: &log})
		if err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(log.String(), "no such thing") {
			t.Errorf("Start = %v, %v, log %q, want exit status 1 and its log", p, err, &log)
		}
	})
	t.Run("canceled", func(t *testing.T) {
		t.Setenv(playEnv, "hang")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := Start(ctx, Options{Binary: os.Args[0]}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start = %v, want %v", err, context.DeadlineExceeded)
		}
	})
	t.Run("no binary", func(t *testing.T) {
		if _, err := Start(t.Context(), Options{Binary: filepath.Join(t.TempDir(), "nonesuch")}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Start = %v, want %v", err, os.ErrNotExist)
		}
	})
}

// TestEndsByItself: a control plane that dies is told, with its exit status.
func TestEndsByItself(t *testing.T) {
	t.Setenv(playEnv, "crash")
	p, err := Start(t.Context(), Options{Binary: os.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Ended():
	case <-time.After(time.Minute):
		t.Fatal("Ended stays open")
	}
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Stop = %v, want exit status 3", err)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	below := filepath.Join(dir, "a", "b")
	for _, d := range []string{below, filepath.Join(dir, "bin")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(below)
	t.Setenv(BinaryEnv, "")
	if path, err := Find(); !errors.Is(err, ErrNoBinary) {
		t.Errorf("Find without a binary = %q, %v, want %v", path, err, ErrNoBinary)
	}
	file := filepath.Join(dir, "bin", "controlplane")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if path, err := Find(); !errors.Is(err, ErrNoBinary) {
		t.Errorf("Find of a file that is no program = %q, %v, want %v", path, err, ErrNoBinary)
	}
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := Find(); err != nil || path != file {
		t.Errorf("Find in a folder above = %q, %v, want %s", path, err, file)
	}
	t.Setenv(BinaryEnv, filepath.Join(dir, "nonesuch"))
	if path, err := Find(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Find of a variable that names nothing = %q, %v, want %v", path, err, os.ErrNotExist)
	}
	t.Setenv(BinaryEnv, file)
	if path, err := Find(); err != nil || path != file {
		t.Errorf("Find by the variable = %q, %v, want %s", path, err, file)
	}
}
