//go:build linux

package main

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// busy lets 200 sessions play for ten minutes. Each plays some steps of some environment, disconnects, and
// connects again.
func busy(p *probe) {
	const sessions = 200
	lasts := time.Duration(p.pick(40, 600)) * time.Second
	s := p.serve("ulimit -n $(ulimit -H -n)", "--unix", filepath.Join(p.dir, "s"), "--lease", "1s")
	w := p.watch(s.ws)
	idle := s.sample()
	ctx, stop := context.WithTimeout(p.ctx, lasts)
	defer stop()
	var all sync.WaitGroup
	var steps, opened atomic.Int64
	var once sync.Once
	specs := envstest.Own()
	for k := range sessions {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(k)))
			for ctx.Err() == nil {
				spec := specs[rng.IntN(len(specs))]
				if err := visit(ctx, "unix://"+s.unix, spec, rng, &steps); err != nil && ctx.Err() == nil {
					once.Do(func() { p.fail("%s: %v", spec.ID, err) })
				}
				opened.Add(1)
			}
		})
	}
	var samples []usage
	for warm := time.After(lasts / 4); ctx.Err() == nil; {
		select {
		case <-warm:
			samples = nil
			warm = nil
		case <-time.After(lasts / 80):
			samples = append(samples, s.sample())
		}
	}
	all.Wait()
	fifth := max(1, len(samples)/5)
	first, last := mean(samples[:fifth]), mean(samples[len(samples)-fifth:])
	p.figure("%d sessions for %.0f s, %d opened, %d steps; first and last fifth after a warm-up: %.0f and %.0f goroutines, %.0f and %.0f descriptors, %.0f and %.0f MB live, %.0f and %.0f MB resident",
		sessions, lasts.Seconds(), opened.Load(), steps.Load(), first.goroutines, last.goroutines, first.files, last.files, first.live, last.live, first.resident, last.resident)
	bounds := map[string][3]float64{
		"goroutines": {first.goroutines, last.goroutines, 40}, "descriptors": {first.files, last.files, 20}, "MB live": {first.live, last.live, 100},
	}
	if !p.short { // the heap takes minutes to reach its full size
		bounds["MB resident"] = [3]float64{first.resident, last.resident, 60}
	}
	for what, x := range bounds {
		if x[1] > x[0]*1.2+x[2] {
			p.fail("%s grow from %.0f to %.0f", what, x[0], x[1])
		}
	}
	w.join(p)
	var after usage
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if after = s.sample(); after.goroutines <= idle.goroutines+5 && after.files <= idle.files+5 {
			break
		}
	}
	p.figure("before and after: %.0f and %.0f goroutines, %.0f and %.0f descriptors", idle.goroutines, after.goroutines, idle.files, after.files)
	if after.goroutines > idle.goroutines+5 || after.files > idle.files+5 {
		p.fail("goroutines or descriptors are left")
	}
	s.stop(time.Second)
}

// visit plays some steps of an environment.
func visit(ctx context.Context, url string, spec *envs.Spec, rng *rand.Rand, steps *atomic.Int64) error {
	v, err := client.Dial(ctx, url, spec.ID, 1+rng.IntN(3), client.Options{Timeout: 5 * time.Minute})
	if err != nil {
		return err
	}
	defer v.Close()
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		return err
	}
	random := v.Baseline(envs.RandomName, 1)
	for range 20 + rng.IntN(100) {
		if _, err := random.Step(ctx); err != nil {
			return err
		}
		steps.Add(1)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(50+rng.IntN(100)) * time.Millisecond):
		}
	}
	return nil
}

// usage holds the resources of a server; memory is in MB.
type usage struct{ goroutines, files, live, resident float64 }

func (s *server) sample() usage {
	m, err := s.metrics()
	if err != nil {
		return usage{}
	}
	return usage{m["go_goroutines"], m["process_open_fds"], (m["go_memstats_heap_alloc_bytes"] + m["go_memstats_stack_inuse_bytes"]) / 1e6, m["process_resident_memory_bytes"] / 1e6}
}

func mean(list []usage) (u usage) {
	for _, x := range list {
		n := float64(len(list))
		u = usage{u.goroutines + x.goroutines/n, u.files + x.files/n, u.live + x.live/n, u.resident + x.resident/n}
	}
	return u
}
