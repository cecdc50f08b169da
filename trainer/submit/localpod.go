package submit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubernasium/kubernasium/kwok/procgroup"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

const (
	probePeriod  = 50 * time.Millisecond
	defaultGrace = 30 * time.Second // Kubernetes' terminationGracePeriodSeconds
)

// localPod is a pod and its replacements.
type localPod struct {
	name    string
	spec    *corev1.PodSpec
	address string // address of its port
	started bool
	ready   chan struct{} // closed when its probe first succeeds
	ended   chan struct{} // closed when it has ended for good
	err     error         // why it failed; read after ended

	readyOnce sync.Once
}

// awaitEnd waits for the end of a started pod.
func (p *localPod) awaitEnd() {
	if p.started {
		<-p.ended
	}
}

// keep runs a pod of a Job and its replacements, as the Job controller does.
func (r *localRun) keep(ctx context.Context, p *localPod, job *batchv1.JobSpec) {
	defer func() {
		close(p.ended)
		r.finished <- p
	}()
	for failures := 0; ; {
		err := r.once(ctx, p)
		switch {
		case ctx.Err() != nil:
			r.say("pod %s ended", p.name)
			return
		case err == nil:
			r.say("pod %s succeeded", p.name)
			return
		case evicted(err) && ignoresEvictions(job):
			r.say("pod %s was evicted (%v): another takes its place", p.name, err)
			continue
		}
		failures++
		if failures > int(*job.BackoffLimit) {
			p.err = fmt.Errorf("%w: pod %s ended with %w; backoffLimit is %d", ErrFailed, p.name, err, *job.BackoffLimit)
			return
		}
		r.say("pod %s failed (%v), %d of %d: another takes its place", p.name, err, failures, *job.BackoffLimit)
		select {
		case <-ctx.Done():
		case <-time.After(backoff(failures)):
		}
	}
}

// evicted reports whether SIGTERM ended a process, either at once or after it had saved its state.
func evicted(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return exit.ExitCode() == cli.StatusInterrupted || ok && status.Signaled() && status.Signal() == syscall.SIGTERM
}

// once runs the process of a pod to its end. When ctx ends, the process has the pod's grace period to end.
func (r *localRun) once(ctx context.Context, p *localPod) error {
	c := &p.spec.Containers[0]
	args := append([]string(nil), r.Program[1:]...)
	for _, a := range c.Args {
		for _, port := range c.Ports {
			if flag, ok := strings.CutSuffix(a, fmt.Sprintf("=:%d", port.ContainerPort)); ok {
				a = flag + "=" + p.address
			}
		}
		args = append(args, r.places.Replace(a))
	}
	cmd := exec.CommandContext(ctx, r.Program[0], args...)
	procgroup.Lead(cmd, true)
	cmd.Cancel = func() error { return procgroup.Terminate(cmd) }
	cmd.WaitDelay = defaultGrace
	if s := p.spec.TerminationGracePeriodSeconds; s != nil {
		cmd.WaitDelay = time.Duration(*s) * time.Second
	}
	cmd.Env = os.Environ()
	for _, e := range c.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+r.token) // the only kind that Build writes
	}
	out := &lines{r: r, prefix: p.name}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return err
	}
	r.say("pod %s started, process %d", p.name, cmd.Process.Pid)
	probing, stop := context.WithCancel(ctx)
	defer stop()
	if c.ReadinessProbe != nil {
		r.wait.Go(func() { r.probe(probing, p, c.ReadinessProbe.HTTPGet.Path) })
	}
	err := cmd.Wait()
	out.flush()
	return err
}

// probe probes a pod until it is ready.
func (r *localRun) probe(ctx context.Context, p *localPod, path string) {
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, nil)
		if err == nil {
			var answer *http.Response
			if answer, err = http.DefaultClient.Do(request); err == nil {
				answer.Body.Close()
				if answer.StatusCode == http.StatusOK {
					break
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(probePeriod):
		}
	}
	r.say("pod %s is ready", p.name)
	p.readyOnce.Do(func() { close(p.ready) })
}

// lines writes a process's lines, prefixed with the pod's name.
type lines struct {
	r      *localRun
	prefix string
	rest   []byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			return len(b), nil
		}
		l.r.say("[%s] %s", l.prefix, l.rest[:i])
		l.rest = l.rest[i+1:]
	}
}

func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.r.say("[%s] %s", l.prefix, l.rest)
	}
}
