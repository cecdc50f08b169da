package study

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// An Outcome is the result of an item, with its step and value for Optuna. A failed trial has no value.
type Outcome struct {
	Result any
	Step   int
	Value  *float64
}

// Work claims items in up to jobs goroutines, renews each claim while train runs, and records the outcome. It
// returns when all items have results, including those of other processes. On the first error it releases its
// claims and returns the error.
func (s *Study) Work(ctx context.Context, items []Item, jobs int, train func(context.Context, Item) (Outcome, error)) error {
	g, ctx := errgroup.WithContext(ctx)
	for range min(jobs, len(items)) {
		g.Go(func() error {
			for {
				it, ok, err := s.Claim(ctx, items)
				if err != nil || !ok {
					return err
				}
				stop := s.Hold(it)
				out, err := train(ctx, it)
				stop()
				if err != nil {
					return errors.Join(err, s.Release(it))
				}
				if err := s.Finish(it, out.Result, out.Step, out.Value); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// pollInterval is the interval of checks for other processes' results.
const pollInterval = 200 * time.Millisecond

// Claim claims the first item that has no result and that no live process has claimed. While others have
// claimed all such items, it waits. It returns false if all items have results.
func (s *Study) Claim(ctx context.Context, items []Item) (Item, bool, error) {
	for {
		var got *Item
		missing := false
		err := s.locked(func() ([]operation, error) {
			for _, it := range items {
				if s.results[it] != nil {
					continue
				}
				missing = true
				if seen, ok := s.claims[it]; s.held[it] || ok && time.Since(seen) <= s.lease {
					continue
				}
				got = &it
				s.held[it] = true
				lines := []operation{s.claimLine(it, s.worker)}
				if it.Rung == 0 {
					o := s.operation(opState)
					o["trial_id"], o["state"], o["values"], o["datetime_start"] = it.Trial, Running, nil, now()
					lines = append([]operation{o}, lines...)
				}
				return lines, nil
			}
			return nil, nil
		})
		switch {
		case err != nil:
			return Item{}, false, err
		case got != nil:
			return *got, true, nil
		case !missing:
			return Item{}, false, nil
		}
		select {
		case <-ctx.Done():
			return Item{}, false, ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

// now returns the time in Optuna's format.
func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000-07:00") }

func (s *Study) claimLine(it Item, worker string) operation {
	return s.attr(it.Trial, claimAttr+strconv.Itoa(it.Rung), map[string]string{"worker": worker})
}

func (s *Study) attr(trial int, name string, v any) operation {
	o := s.operation(opTrialAttr)
	o["trial_id"], o["user_attr"] = trial, map[string]any{name: v}
	return o
}

// Hold renews the claim of an item until the returned function is called, which waits for the last renewal.
func (s *Study) Hold(it Item) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(s.lease / 4):
			}
			// A failed renewal is retried; without any renewal, other processes may train the item, too.
			_ = s.locked(func() ([]operation, error) { return []operation{s.claimLine(it, s.worker)}, nil })
		}
	})
	return func() { cancel(); done.Wait() }
}

// Release releases an item that this process has claimed and not finished.
func (s *Study) Release(it Item) error {
	return s.locked(func() ([]operation, error) {
		delete(s.held, it)
		return []operation{s.claimLine(it, "")}, nil
	})
}

// Finish records the result of an item, with its step and value for Optuna; without a value the trial fails
// there. If another process was first, its result stays.
func (s *Study) Finish(it Item, result any, step int, value *float64) error {
	return s.locked(func() ([]operation, error) {
		delete(s.held, it)
		if s.results[it] != nil {
			return nil, nil
		}
		var lines []operation
		if value != nil {
			o := s.operation(opIntermediate)
			o["trial_id"], o["step"], o["intermediate_value"] = it.Trial, step, *value
			lines = append(lines, o)
		}
		return append(lines, s.attr(it.Trial, resultAttr+strconv.Itoa(it.Rung), result)), nil
	})
}

// End sets the final state of a trial for Optuna, unless it has one. A value belongs to a complete trial.
func (s *Study) End(trial int, state State, value *float64) error {
	return s.locked(func() ([]operation, error) {
		if s.states[trial] != Running {
			return nil, nil
		}
		o := s.operation(opState)
		o["trial_id"], o["state"], o["values"], o["datetime_complete"] = trial, state, nil, now()
		if value != nil {
			o["values"] = []float64{*value}
		}
		return []operation{o}, nil
	})
}
