//go:build linux

package main

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
)

// rollouts lets 16 sessions play rollouts of the baseline FGD without a pause. The server must answer 99 of 100
// steps of a session beside them within 20 ms.
func rollouts(p *probe) {
	const most = 20.0
	var p99 float64
	for range tries {
		if p99 = besideRollouts(p); p99 <= most || len(p.failures) > 0 {
			return
		}
	}
	p.fail("p99 of the session beside is %.1f ms, want at most %.0f", p99, most)
}

// besideRollouts returns the 99th percentile of the steps of the session beside them, in milliseconds.
func besideRollouts(p *probe) float64 {
	const sessions, envsEach = 16, 16
	lasts := time.Duration(p.pick(10, 60)) * time.Second
	s := p.serve("", "--unix", filepath.Join(p.dir, "s"))
	ctx, stop := context.WithTimeout(p.ctx, lasts)
	defer stop()
	var all, ready sync.WaitGroup
	var played atomic.Int64
	ready.Add(sessions)
	for range sessions {
		all.Go(func() {
			first := sync.OnceFunc(ready.Done)
			defer first()
			if err := roll(ctx, "unix://"+s.unix, envsEach, first, &played); err != nil && ctx.Err() == nil {
				p.fail("a session of rollouts: %v", err)
			}
		})
	}
	ready.Wait()
	w := p.watch(s.ws)
	<-ctx.Done()
	p99 := w.join(p)
	all.Wait()
	p.figure("%d sessions made %d steps of rollouts in %.0f s", sessions, played.Load(), lasts.Seconds())
	s.stop(time.Second)
	return p99
}

// roll plays rollouts until ctx ends. It calls ready before the first.
func roll(ctx context.Context, url string, n int, ready func(), played *atomic.Int64) error {
	v, err := client.Dial(ctx, url, "k8s/GPUPodScheduling-v1", n, client.Options{Reconnect: -1})
	if err != nil {
		return err
	}
	defer v.Close()
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		return err
	}
	ready()
	for ctx.Err() == nil {
		_, r, err := v.Baseline("FGD", 0).Rollout(ctx, client.RolloutOptions{Steps: 50})
		if err != nil {
			return err
		}
		played.Add(int64(r.Steps * n))
	}
	return nil
}
