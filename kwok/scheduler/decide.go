package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Why a decision fell back on kube-scheduler's scores.
const (
	fallbackTimeout = "timeout"
	fallbackError   = "error"
)

// decider lets the policy decide within its budget of time, and kube-scheduler's scores otherwise.
type decider struct {
	policy  *Policy
	budget  time.Duration
	metrics *metrics

	fallen atomic.Int64 // decisions that fell back

	busy  chan struct{} // holds one while the policy is asked, possibly for an answer that came too late
	seat  *seat         // of the last moment's number of nodes
	nodes int
}

func newDecider(p *Policy, budget time.Duration, m *metrics) *decider {
	return &decider{policy: p, budget: budget, metrics: m, busy: make(chan struct{}, 1)}
}

// verdict is a choice, and why it is not the policy's.
type verdict struct {
	choice
	fallback string // "" is none
	err      error  // of the policy
}

// decide returns the choice for a moment in which the pod fits at least one node.
func (d *decider) decide(ctx context.Context, m *moment) verdict {
	begin := time.Now()
	v := verdict{}
	v.choice, v.err = d.ask(ctx, m)
	switch {
	case v.err == nil:
		d.metrics.policy.Observe(time.Since(begin).Seconds())
		return v
	case errors.Is(v.err, context.DeadlineExceeded):
		v.fallback = fallbackTimeout
		v.err = fmt.Errorf("scheduler: no answer of the policy within %v", d.budget)
	default:
		v.fallback = fallbackError
	}
	d.fallen.Add(1)
	d.metrics.fallbacks.WithLabelValues(v.fallback).Inc()
	v.choice = stock(m)
	return v
}

// ask asks the policy, which answers one question at a time, within the budget.
func (d *decider) ask(ctx context.Context, m *moment) (choice, error) {
	ctx, cancel := context.WithTimeout(ctx, d.budget)
	defer cancel()
	select {
	case d.busy <- struct{}{}:
	case <-ctx.Done():
		return choice{}, ctx.Err()
	}
	type answer struct {
		choice
		err error
	}
	answers := make(chan answer, 1)
	go func() { // close waits for its end
		c, err := d.answer(ctx, m)
		<-d.busy
		answers <- answer{c, err}
	}()
	select {
	case a := <-answers:
		return a.choice, a.err
	case <-ctx.Done():
		return choice{}, ctx.Err()
	}
}

// answer sits the policy down among as many nodes as there are, and asks it.
func (d *decider) answer(ctx context.Context, m *moment) (choice, error) {
	if d.seat == nil || d.nodes != len(m.nodes) {
		s, err := d.policy.open(len(m.nodes))
		if err != nil {
			return choice{}, err
		}
		if d.seat != nil {
			if err := d.seat.close(); err != nil {
				return choice{}, err
			}
		}
		d.seat, d.nodes = s, len(m.nodes)
	}
	return d.seat.choose(ctx, m)
}

// close waits for the policy's last answer, unless that takes too long.
func (d *decider) close() error {
	select {
	case d.busy <- struct{}{}:
	case <-time.After(lastAnswer):
		return fmt.Errorf("scheduler: the policy %s has not answered for %v", d.policy.Name, lastAnswer)
	}
	if d.seat == nil {
		return nil
	}
	return d.seat.close()
}
