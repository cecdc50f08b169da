//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/server/wire"
)

// A cgroup limits the memory of the processes in it.
type cgroup struct {
	dir string
	v2  bool
}

// newCgroup makes a cgroup of version 1, or of version 2 if the memory controller is there. It needs root.
func newCgroup(bytes int64) (*cgroup, error) {
	name := fmt.Sprintf("chaos-%d", os.Getpid())
	g := &cgroup{dir: filepath.Join("/sys/fs/cgroup/memory", name)}
	limit := "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err != nil {
		g = &cgroup{dir: filepath.Join("/sys/fs/cgroup", name), v2: true}
		limit = "memory.max"
		_ = os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+memory"), 0o644) // it may be enabled already
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(g.dir, limit), []byte(strconv.FormatInt(bytes, 10)), 0o644); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

func (g *cgroup) close() error { return os.Remove(g.dir) }

// enter returns the shell command that puts the shell into the cgroup.
func (g *cgroup) enter() string { return "echo $$ > " + filepath.Join(g.dir, "cgroup.procs") }

// peak returns the maximum memory in use.
func (g *cgroup) peak() int64 {
	name := "memory.max_usage_in_bytes"
	if g.v2 {
		name = "memory.peak"
	}
	text, _ := os.ReadFile(filepath.Join(g.dir, name)) // 0 means unknown
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}

// kills returns the number of the cgroup's processes that the kernel has killed for lack of memory.
func (g *cgroup) kills() int {
	name := "memory.oom_control"
	if g.v2 {
		name = "memory.events"
	}
	text, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			kills, _ := strconv.Atoi(strings.TrimSpace(n))
			return kills
		}
	}
	return -1
}

// extremes returns options at their limits: together the largest ones that can be found in time.
func (p *probe) extremes(spec *envs.Spec) []envstest.Extreme {
	if p.short {
		return append(envstest.Ends(spec), envstest.Extreme{Name: "default"})
	}
	return append(envstest.Extremes(spec), envstest.Extreme{Name: "default"})
}

// memory resets environments with the largest options that a server in a cgroup of 2 GB accepts, many at a
// time, and as many as the server grants.
func memory(p *probe) {
	const bytes, peers, most = 2 << 30, 8, 4096
	g, err := newCgroup(bytes)
	if err != nil {
		p.skipped = "needs root and a memory cgroup: " + err.Error()
		return
	}
	defer func() { p.failOn(g.close(), "cgroup") }()
	s := p.serve(g.enter(), "--unix", filepath.Join(p.dir, "s"))
	var hostile []request
	for _, spec := range envstest.Own() {
		for _, x := range p.extremes(spec) {
			hostile = append(hostile, request{spec.ID, x.Options})
		}
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(hostile), func(i, j int) { hostile[i], hostile[j] = hostile[j], hostile[i] })
	w := p.watch(s.ws)
	var all sync.WaitGroup
	var mu sync.Mutex
	resets, refused, late, broken, next := 0, 0, 0, 0, 0
	want := p.pick(200, 1000)
	for range peers {
		all.Go(func() {
			for {
				mu.Lock()
				enough := resets >= want || p.ctx.Err() != nil || broken > 20
				q := hostile[next%len(hostile)]
				next++
				mu.Unlock()
				if enough {
					return
				}
				o, err := allocateAll(s.unix, q, most)
				mu.Lock()
				resets, refused, late = resets+o.resets, refused+o.refused, late+o.late
				if err != nil {
					broken++
					p.fail("%s %v: %v", q.id, q.options, err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	w.join(p)
	if kills := g.kills(); kills != 0 {
		p.crashes += max(1, kills)
	}
	p.figure("%d resets (%d ended by their deadline) and %d refusals of %d sets of options × up to %d environments, %d at a time: peak of the cgroup %d MB of %d, %d killed",
		resets, late, refused, len(hostile), most, peers, g.peak()>>20, int64(bytes)>>20, g.kills())
	s.stop(0)
}

type request struct {
	id      string
	options map[string]any
}

// outcome counts the results of requests.
type outcome struct{ resets, refused, late int }

// allocateAll makes as many environments as the server grants, resets and steps them twice, and disconnects.
func allocateAll(path string, q request, most int) (o outcome, err error) {
	c, err := open(path)
	if err != nil {
		return o, err
	}
	defer c.conn.Close()
	eid := uint64(0)
	for n := most; n >= 1 && eid == 0; n /= 4 {
		m := message{"t": "make", "env": q.id, "n": n}
		if q.options != nil {
			m["options"] = q.options
		}
		r, err := c.ask(m)
		switch {
		case err != nil:
			return o, err
		case r.Type == "make.ok":
			eid = r.EID
		case r.Reason == string(wire.TooMuchMemory), r.Reason == string(wire.TooManyEnvs):
			o.refused++
		default:
			return o, fmt.Errorf("make: %s %s", r.Reason, r.Msg)
		}
	}
	if eid == 0 {
		return o, nil
	}
	for seed := range 2 {
		r, err := c.ask(message{"t": "reset", "eid": eid, "seed": seed, "dl": 1000})
		if err != nil {
			return o, err
		}
		o.resets++
		if r.Reason == string(wire.Deadline) {
			o.late++
			continue
		}
		for range 2 {
			if _, err := c.ask(message{"t": "rollout", "eid": eid, "name": "random", "seed": seed, "steps": 2, "dl": 1000}); err != nil {
				return o, err
			}
			if _, err := c.ask(message{"t": "snapshot", "eid": eid}); err != nil {
				return o, err
			}
		}
	}
	return o, nil
}
