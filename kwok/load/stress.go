package load

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kubernasium/kubernasium/kwok/procgroup"
)

// stopPatience is the time in which stress-ng must stop its workers and end before it is killed.
const stopPatience = 2 * time.Second

// Stress runs stress-ng so that its usage reaches a target. It is safe for concurrent use.
type Stress struct {
	Path   string    // path of stress-ng; default: from PATH
	Output io.Writer // default: none

	mu     sync.Mutex
	target Target
	parts  map[string]*part // by their resource
}

// part is one running stress-ng.
type part struct {
	args  []string
	cmd   *exec.Cmd
	ended chan struct{}
}

// partsOf returns the arguments of each stress-ng process for a target: one that holds the memory, one with a
// worker for each whole core, and one for a fraction of a core, with a load in percent.
func partsOf(t Target) map[string][]string {
	all := map[string][]string{}
	if t.RAM > 0 {
		all["memory"] = []string{"--vm", "1", "--vm-bytes", strconv.FormatInt(t.RAM, 10) + "M", "--vm-hang", "10"}
	}
	if cores := t.CPU / 1000; cores > 0 {
		all["cores"] = []string{"--cpu", strconv.FormatInt(cores, 10)}
	}
	if rest := t.CPU % 1000 / 10; rest > 0 {
		all["rest"] = []string{"--cpu", "1", "--cpu-load", strconv.FormatInt(rest, 10)}
	}
	return all
}

// Set applies a target. It keeps unchanged parts running, so that usage does not drop to zero at each step, and
// restarts the others.
func (s *Stress) Set(t Target) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := partsOf(t)
	s.stop(func(name string, p *part) bool { return !slices.Equal(p.args, want[name]) || p.exited() })
	for name, args := range want {
		if s.parts[name] != nil {
			continue
		}
		p, err := s.start(args)
		if err != nil {
			return err
		}
		if s.parts == nil {
			s.parts = map[string]*part{}
		}
		s.parts[name] = p
	}
	s.target = t
	return nil
}

// stop stops the selected parts, all at the same time.
func (s *Stress) stop(which func(name string, p *part) bool) {
	var wg sync.WaitGroup
	for name, p := range s.parts {
		if which(name, p) {
			delete(s.parts, name)
			wg.Go(p.stop)
		}
	}
	wg.Wait()
}

func (s *Stress) start(args []string) (*part, error) {
	path := cmp.Or(s.Path, "stress-ng")
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = s.Output, s.Output
	procgroup.Lead(cmd, true)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("load: start stress-ng: %w", err)
	}
	p := &part{args: args, cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // its output shows how it ended
		close(p.ended)
	}()
	return p, nil
}

// exited reports whether the part has ended by itself, for example by an OOM kill.
func (p *part) exited() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *part) stop() {
	_ = procgroup.Terminate(p.cmd) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(stopPatience):
	}
	_ = procgroup.Kill(p.cmd) // also its workers
	<-p.ended
}

// Target returns the current target, and an error if one of its stress-ng processes has ended by itself.
func (s *Stress) Target() (Target, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for name, p := range s.parts {
		if p.exited() {
			errs = append(errs, fmt.Errorf("load: stress-ng for %s has ended: %v", name, p.cmd.ProcessState))
		}
	}
	return s.target, errors.Join(errs...)
}

// Close stops every stress-ng.
func (s *Stress) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop(func(string, *part) bool { return true })
	return nil
}
