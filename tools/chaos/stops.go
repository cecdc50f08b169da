//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/server/wire"
)

// A slowest keeps the longest time and what took it.
type slowest struct {
	took time.Duration
	what string
	n    int
}

func (s *slowest) add(took time.Duration, what string) {
	s.n++
	if took > s.took {
		s.took, s.what = took, what
	}
}

// Limits of the time until work stops.
const (
	afterDeadline   = 250 * time.Millisecond
	afterDisconnect = time.Second
	afterDrain      = time.Second
	afterParent     = 5 * time.Second
	drain           = 200 * time.Millisecond
)

// check fails the row if the longest time exceeds its limit.
func (s *slowest) check(p *probe, what string, bound time.Duration) {
	p.figure("%s: at most %.0f ms of %.0f in %d cases (%s)", what, ms(s.took), ms(bound), s.n, s.what)
	if s.took > bound {
		p.fail("%s of %s took %v, want at most %v", what, s.what, s.took, bound)
	}
}

// largestOptions returns the largest options with which an episode begins within seconds, in at most 64 MB.
func (p *probe) largestOptions(s *server, spec *envs.Spec) (map[string]any, error) {
	errMeasured := errors.New("measured")
	for most := int64(64 << 20); ; most /= 4 {
		x := envstest.Shrink(spec, envstest.Greatest(spec), func(opts map[string]any) bool {
			bytes := int64(0)
			_, err := envs.NewVec(spec, 1, envs.VecOptions{Options: opts, Admit: func(b int64) error {
				bytes = b
				return errMeasured
			}})
			return errors.Is(err, errMeasured) && bytes <= most
		})
		c, eid, err := made(s, spec.ID, x.Options)
		if c != nil {
			err = errors.Join(err, c.conn.Close())
		}
		if eid > 0 || err != nil || len(x.Options) == 0 {
			return x.Options, err
		}
	}
}

// stops ends work in every possible way: by its deadline, by the end of its connection, and by the end of the
// server.
func stops(p *probe) {
	var deadline, disconnect, term slowest
	for _, spec := range envstest.Own() {
		if p.ctx.Err() != nil {
			return
		}
		p.stopsOf(spec, &deadline, &disconnect, &term)
	}
	deadline.check(p, "after a deadline", afterDeadline)
	disconnect.check(p, "after a disconnect", afterDisconnect)
	term.check(p, "after SIGTERM and --drain", afterDrain)
	p.second()
}

// tries is the maximum number of measurements of something that takes too long, because other programs use the
// machine, too.
const tries = 3

func (p *probe) stopsOf(spec *envs.Spec, deadline, disconnect, term *slowest) {
	names := []string{"random"}
	for i := range spec.Baselines {
		names = append(names, spec.Baselines[i].Name)
	}
	var options map[string]any
	took := time.Duration(0)
	for try := range tries {
		s := p.serve("", "--unix", filepath.Join(p.dir, "s"), "--drain", drain.String())
		if try == 0 {
			var err error
			options, err = p.largestOptions(s, spec)
			p.failOn(err, spec.ID)
			for _, name := range names {
				if !p.short {
					p.failOn(ends(s, spec.ID, name, nil, deadline, disconnect), spec.ID+" "+name)
				}
				p.failOn(ends(s, spec.ID, name, options, deadline, disconnect), spec.ID+" "+name)
			}
		}
		for _, name := range names { // all at once, within the time to drain
			c, eid, err := made(s, spec.ID, options)
			if err == nil && eid > 0 {
				defer c.conn.Close()
				err = c.send(message{"t": "rollout", "eid": eid, "name": name, "steps": 1 << 20})
			}
			p.failOn(err, spec.ID+" "+name)
		}
		time.Sleep(200 * time.Millisecond) // they compute
		if took = s.terminate() - drain; took <= afterDrain {
			break
		}
	}
	term.add(took, spec.ID)
}

// makes makes one environment, in a session of its own.
func makes(s *server, id string, opts map[string]any) (*peer, *reply, error) {
	c, err := open(s.unix)
	if err != nil {
		return nil, nil, err
	}
	m := message{"t": "make", "env": id}
	if len(opts) > 0 {
		m["options"] = maps.Clone(opts)
	}
	r, err := c.granted(m)
	return c, r, err
}

// made makes and resets one environment. eid is 0 if an episode with these options does not begin within
// seconds.
func made(s *server, id string, opts map[string]any) (c *peer, eid uint64, err error) {
	c, r, err := makes(s, id, opts)
	if err != nil {
		return c, 0, err
	}
	reset, err := c.ask(message{"t": "reset", "eid": r.EID, "seed": 1, "dl": 5000})
	if err != nil || reset.Type == "err" {
		return c, 0, err
	}
	return c, r.EID, nil
}

// ends ends the work of a baseline by a deadline, and then by the end of the connection.
func ends(s *server, id, name string, opts map[string]any, deadline, disconnect *slowest) error {
	c, r, err := makes(s, id, opts)
	if c == nil {
		return err
	}
	if err != nil {
		return errors.Join(err, c.conn.Close())
	}
	const dl = 100 * time.Millisecond
	limited := func(what string, m message) (r *reply, err error) {
		m["dl"] = dl.Milliseconds()
		took := time.Duration(math.MaxInt64)
		for range tries {
			begin := time.Now()
			if r, err = c.ask(m); err != nil {
				return nil, err
			}
			if took = min(took, time.Since(begin)-dl); took <= afterDeadline {
				break
			}
		}
		deadline.add(took, id+" "+what)
		return r, nil
	}
	got, err := limited("reset", message{"t": "reset", "eid": r.EID, "seed": 1})
	if err == nil && got.Reason == string(wire.Deadline) {
		got, err = c.ask(message{"t": "reset", "eid": r.EID, "seed": 1, "dl": 5000})
	}
	if err != nil || got.Type == "err" { // nobody waits for this episode any more, or the options do not permit it
		return errors.Join(err, c.conn.Close())
	}
	for _, m := range []message{{"t": "policy", "name": name}, {"t": "step", "policy": name}, {"t": "rollout", "name": name, "steps": 1 << 20}} {
		m["eid"] = r.EID
		if _, err := limited(fmt.Sprint(name, " ", m["t"]), m); err != nil {
			return errors.Join(err, c.conn.Close())
		}
	}
	if err := c.send(message{"t": "rollout", "eid": r.EID, "name": name, "steps": 1 << 20}); err != nil {
		return err
	}
	time.Sleep(50 * time.Millisecond)
	begin := time.Now()
	if err := c.conn.Close(); err != nil {
		return err
	}
	within(patience, func() bool { return s.metric("kubernasium_envs") == 0 })
	disconnect.add(time.Since(begin), id+" "+name)
	return nil
}

// second sends a second signal to a server that takes long to drain.
func (p *probe) second() {
	s := p.serve("", "--unix", filepath.Join(p.dir, "s"), "--drain", "10m")
	c, eid, err := made(s, "k8s/GangWindow-v0", nil)
	if err == nil {
		err = c.send(message{"t": "rollout", "eid": eid, "name": "dynamic_mpc", "steps": 1 << 20})
	}
	p.must(err, "rollout")
	defer c.conn.Close()
	if !within(patience, func() bool { return s.metric("kubernasium_env_steps_total") > 0 }) {
		p.fail("the rollout does not begin")
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	time.Sleep(300 * time.Millisecond)
	begin := time.Now()
	if !s.alive() {
		p.fail("the server did not wait for its request")
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
	}
	p.figure("a second SIGTERM ends it in %.0f ms", ms(time.Since(begin)))
}

// runs reports whether a process exists and is not a zombie.
func runs(pid int) bool {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return false
	}
	stat, err := process.Stat()
	return err == nil && stat.State != "Z"
}

// orphan kills programs that have started a server, one in Go and one in Python, while the server is busy.
func orphan(p *probe) {
	python := `import sys, time, kubernasium
from kubernasium import launcher
s = launcher.default_server()
c = launcher.open_connection()
print(s.pid, s.url[len("unix:"):], flush=True)
time.sleep(1000)`
	for name, cmd := range map[string]*exec.Cmd{
		"Go":     clientCommand("parent", p.server, filepath.Join(p.dir, "s")),
		"Python": exec.Command(p.python, "-c", python),
	} {
		cmd.Env = append(cmd.Environ(), "KUBERNASIUM_SERVER="+p.server, "PYTHONPATH=clients/python/src")
		out, err := cmd.StdoutPipe()
		var log tail
		cmd.Stderr = &log
		if p.failOn(err, name) || p.failOn(cmd.Start(), name) {
			continue
		}
		var pid int
		var path string
		if _, err := fmt.Fscan(out, &pid, &path); err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			p.figure("%s not run: %.300s", name, log.String())
			continue
		}
		s := &server{unix: path}
		c, eid, err := made(s, "k8s/GangWindow-v0", nil)
		if err == nil {
			err = c.send(message{"t": "rollout", "eid": eid, "name": "dynamic_mpc", "steps": 1 << 20})
		}
		p.failOn(err, name)
		time.Sleep(100 * time.Millisecond)
		begin := time.Now()
		_ = cmd.Process.Kill() // it sleeps
		_ = cmd.Wait()
		within(patience, func() bool { return !runs(pid) })
		took := time.Since(begin)
		p.figure("the server of a %s program ends %.0f ms after kill -9 of its parent, in the middle of a rollout", name, ms(took))
		if took > afterParent {
			p.fail("the server of a %s program is an orphan for %v", name, took)
		}
	}
}
