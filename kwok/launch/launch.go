// Package launch starts the control plane of kwok/controlplane as a separate process, and stops it. That
// program is a separate module because it compiles Kubernetes' servers, which importers of this package do not
// need.
package launch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// BinaryEnv names the environment variable with the path of the control plane's binary.
const BinaryEnv = "KUBERNASIUM_CONTROLPLANE"

// SchedulerEnv names the environment variable with the path of the scheduler's binary.
const SchedulerEnv = "KUBERNASIUM_SCHEDULER"

const (
	binary      = "controlplane"
	scheduler   = "kubernasium-scheduler"
	stopTimeout = 60 * time.Second // 30 × the duration of a stop on an idle machine
)

// ErrNoBinary is returned by Find if there is no binary of the control plane.
var ErrNoBinary = errors.New("launch: no control plane: run `make controlplane` or `pip install kubernasium[kwok]`, or set " + BinaryEnv + " to its binary")

// ErrNoScheduler is returned by FindScheduler if there is no binary of the scheduler.
var ErrNoScheduler = errors.New("launch: no scheduler: run `make scheduler`, or set " + SchedulerEnv + " to its binary")

// Ready is the line that the control plane prints when it is ready.
type Ready struct {
	URL        string            `json:"url"`        // of the API server, from this machine
	Kubeconfig string            `json:"kubeconfig"` // path of the file for clients, which holds their token
	DataDir    string            `json:"data_dir"`
	PID        int               `json:"pid"`
	Components []string          `json:"components"` // components besides etcd and kube-apiserver
	Clock      string            `json:"clock"`      // KWOK's: real or stepped
	Versions   map[string]string `json:"versions"`   // of kubernetes, etcd and kwok
	Seconds    float64           `json:"seconds"`    // start time until ready
}

// Options configure the control plane to start.
type Options struct {
	Binary string    // default: the path that Find returns
	Args   []string  // flags of the control plane
	Stderr io.Writer // its log; default: none
}

// A ControlPlane is a running process.
type ControlPlane struct {
	Ready
	stdin io.Closer
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // error of the process's end; read it after ended is closed
}

// Find returns the path of the control plane's binary: the value of the variable BinaryEnv, or
// controlplane beside this program, or bin/controlplane in the working folder or one above it.
func Find() (string, error) {
	path, err := Locate(BinaryEnv, binary)
	if errors.Is(err, os.ErrNotExist) && os.Getenv(BinaryEnv) == "" {
		return "", ErrNoBinary
	}
	return path, err
}

// FindScheduler returns the path of the scheduler's binary: the value of the variable SchedulerEnv, or
// kubernasium-scheduler where Find looks.
func FindScheduler() (string, error) {
	path, err := Locate(SchedulerEnv, scheduler)
	if errors.Is(err, os.ErrNotExist) && os.Getenv(SchedulerEnv) == "" {
		return "", ErrNoScheduler
	}
	return path, err
}

// Locate returns the path of a separately built program: the value of variable, name beside this program, or
// bin/name in the working folder or a parent. The error wraps [os.ErrNotExist] if there is none.
func Locate(variable, name string) (string, error) {
	if path := os.Getenv(variable); path != "" {
		if err := executable(path); err != nil {
			return "", fmt.Errorf("%s=%s: %w", variable, path, err)
		}
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(self), name); executable(path) == nil {
			return path, nil
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if path := filepath.Join(dir, "bin", name); executable(path) == nil {
			return path, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("bin/%s: %w", name, os.ErrNotExist)
		}
		dir = parent
	}
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return errors.New("not an executable file")
	}
	return nil
}

// Start starts a control plane and returns when it is ready. If ctx ends first, Start stops it. The control
// plane always ends with this process, because its stdin is a pipe from this process.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if o.Binary == "" {
		var err error
		if o.Binary, err = Find(); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(o.Binary, append([]string{"--exit-with-stdin"}, o.Args...)...)
	cmd.Stderr = o.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the control plane: %w", err)
	}
	p := &ControlPlane{stdin: stdin, cmd: cmd, ended: make(chan struct{})}
	line := make(chan []byte, 1)
	go func() {
		text, _ := bufio.NewReader(stdout).ReadBytes('\n') // if the line is incomplete, JSON is invalid; see below
		line <- text
		p.err = cmd.Wait()
		close(p.ended)
	}()
	select {
	case text := <-line:
		if err := json.Unmarshal(text, &p.Ready); err != nil {
			return nil, errors.Join(fmt.Errorf("start the control plane: its log tells why: %w", err), p.Stop())
		}
		return p, nil
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), p.Stop())
	}
}

// Ended is closed when the process has ended, by Stop or otherwise.
func (p *ControlPlane) Ended() <-chan struct{} { return p.ended }

// Stop stops the control plane, waits until its process has ended, and returns the error of its end, if any. It
// may be called again.
func (p *ControlPlane) Stop() error {
	_ = p.stdin.Close() // an earlier call may have closed it
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("control plane killed: it still ran %v after it was told to stop", stopTimeout)
	}
	if p.err != nil {
		return fmt.Errorf("control plane: %w", p.err)
	}
	return nil
}
