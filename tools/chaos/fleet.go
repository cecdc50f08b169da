//go:build linux

package main

import (
	"path/filepath"
	"time"
)

// fleet trains on two servers, and kills one of them for good. The other takes over its environments.
func fleet(p *probe) {
	const most = 5 * time.Second
	steps := p.pick(16_384, 65_536)
	want := p.undisturbed(steps)
	first, second := p.serve(""), p.serve("")
	folder := filepath.Join(p.dir, "disturbed")
	ended := make(chan error, 1)
	go func() {
		ended <- p.execute(trainArgs(folder, steps, "--url", first.ws, "--url", second.ws)...)
	}()
	if !within(patience, func() bool { return first.metric("kubernasium_env_steps_total") > float64(steps/8) }) {
		p.fail("the training does not begin: %v", <-ended)
		return
	}
	sessions := second.metric("kubernasium_sessions")
	first.kill()
	begin := time.Now()
	moved := within(patience, func() bool { return second.metric("kubernasium_sessions") > sessions })
	took := time.Since(begin)
	p.failOn(<-ended, "the training")
	p.same(folder, want)
	if !moved || took > most {
		p.fail("after %.1f s the other server has no more sessions than its %.0f, want one more within %.0f", took.Seconds(), sessions, most.Seconds())
	}
	if share := second.metric("kubernasium_env_steps_total") / float64(steps); share < 0.6 {
		p.fail("the server that is left made %.2f of the steps, want more than its half", share)
	}
	second.stop(0)
	p.figure("%d steps on two servers, of which one ends by kill -9 in mid-training: the other has its environments after %.2f s, and the parameters are the undisturbed ones", steps, took.Seconds())
}

// within polls ok, and reports whether it returns true before the limit.
func within(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}
