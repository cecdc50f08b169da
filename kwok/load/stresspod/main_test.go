package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/kwok/load"
)

// role is set in the processes that a test starts from its own binary: the stress pod, and in place
// of stress-ng one that notes its arguments in that file.
const role = "STRESSPOD_TEST_FILE"

const patience = time.Minute // of waits

func TestMain(m *testing.M) {
	file := os.Getenv(role)
	switch {
	case file == "":
		os.Exit(m.Run())
	case os.Args[1] == "--vm" || os.Args[1] == "--cpu":
		standIn(file)
	default:
		main()
	}
}

// standIn notes its start and its end by SIGTERM, which it waits for, and holds --vm-bytes meanwhile.
func standIn(file string) {
	var held []byte
	if i := slices.Index(os.Args, "--vm-bytes"); i > 0 {
		var mib int
		if _, err := fmt.Sscanf(os.Args[i+1], "%dM", &mib); err != nil {
			os.Exit(2)
		}
		held = bytes.Repeat([]byte{1}, mib<<20)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	note(file, "start "+strings.Join(os.Args[1:], " "))
	<-stop
	runtime.KeepAlive(held)
	note(file, "stop "+strings.Join(os.Args[1:], " "))
}

func note(file, line string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(2)
	}
	fmt.Fprintln(f, line)
	f.Close()
}

// notes returns the lines of the file, once there are so many.
func notes(t *testing.T, file string, n int) []string {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(file)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if err == nil && len(lines) >= n {
			return lines
		}
		if time.Now().After(end) {
			t.Fatalf("%d notes, want %d:\n%s", len(lines), n, text)
		}
	}
}

// TestStressPod runs the program as a process: it registers, goes over to each target before the
// server's step ends, restarts only what changes, and leaves nothing behind.
func TestStressPod(t *testing.T) {
	s, err := load.NewServer(load.Config{}, map[string][]load.Target{
		"pod-0": {{RAM: 1, CPU: 20}, {RAM: 1, CPU: 1020}, {RAM: 2, CPU: 1020}, {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "notes")
	pod := exec.Command(os.Args[0], "--server", srv.URL, "--hostname", "pod-0", "--name-port", "--stress-ng", os.Args[0])
	pod.Env = append(os.Environ(), role+"="+file)
	pod.Stderr = os.Stderr
	if err := pod.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pod.Process.Kill() }()
	ctx := context.Background()
	got := notes(t, file, 2)
	slices.Sort(got)
	if want := []string{"start --cpu 1 --cpu-load 2", "start --vm 1 --vm-bytes 1M --vm-hang 10"}; !slices.Equal(got, want) {
		t.Errorf("at first %q, want %q", got, want)
	}
	for i, want := range [][]string{
		{"start --cpu 1"},
		{"stop --vm 1 --vm-bytes 1M --vm-hang 10", "start --vm 1 --vm-bytes 2M --vm-hang 10"},
		{"stop --cpu 1", "stop --cpu 1 --cpu-load 2", "stop --vm 1 --vm-bytes 2M --vm-hang 10"},
	} {
		before := len(notes(t, file, 2))
		if st := s.Step(ctx, 1); len(st.Pods) != 1 || st.Pods["pod-0"].Error != "" {
			t.Fatalf("step %d: %+v", i, st)
		}
		got := notes(t, file, before+len(want))[before:]
		if i == 2 {
			slices.Sort(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("step %d: %q, want %q", i, got, want)
		}
	}
	before := len(notes(t, file, 2))
	s.Step(ctx, 1) // the first again
	notes(t, file, before+2)
	if err := pod.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := pod.Wait(); err != nil {
		t.Errorf("end = %v, want exit status 0", err)
	}
	for _, line := range notes(t, file, before+4)[before+2:] {
		if !strings.HasPrefix(line, "stop ") {
			t.Errorf("after the end %q, want stops", line)
		}
	}
}

// TestStressUses: a worker holds the memory of the target, of stress-ng where it is installed and
// elsewhere of what stands in its place.
func TestStressUses(t *testing.T) {
	path, err := exec.LookPath("stress-ng")
	if err != nil {
		t.Setenv(role, filepath.Join(t.TempDir(), "notes"))
		path = os.Args[0]
	}
	t.Log("with", path)
	s := &load.Stress{Path: path}
	defer s.Close()
	if err := s.Set(load.Target{RAM: 64, CPU: 100}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if got := resident(t, os.Getpid()); got >= 64<<20 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("stress-ng holds %d bytes after %v, want 64 MiB", got, patience)
		}
	}
	if got, err := s.Target(); err != nil || got != (load.Target{RAM: 64, CPU: 100}) {
		t.Errorf("target %+v, %v", got, err)
	}
}

// resident returns the resident bytes of the largest process below pid.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	var most int64
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range children {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		for _, word := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, resident(t, child))
			f, err := os.Open(fmt.Sprintf("/proc/%d/status", child))
			if err != nil {
				continue
			}
			for lines := bufio.NewScanner(f); lines.Scan(); {
				if kib, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
					n, err := strconv.ParseInt(strings.Fields(kib)[0], 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					most = max(most, n<<10)
				}
			}
			f.Close()
		}
	}
	return most
}

func TestArguments(t *testing.T) {
	if err := run(context.Background(), []string{"extra"}); err == nil || !strings.Contains(err.Error(), "extra") {
		t.Errorf("an argument too many: %v", err)
	}
	if err := run(context.Background(), []string{"--listen", "nonsense"}); err == nil {
		t.Error("an address that is none: no error")
	}
	// A server that has no workload for the pod will never have one by waiting.
	s, err := load.NewServer(load.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	if err := run(context.Background(), []string{"--server", srv.URL, "--hostname", "pod-9"}); err == nil || !strings.Contains(err.Error(), "no workload") {
		t.Errorf("a pod without a workload: %v", err)
	}
}
