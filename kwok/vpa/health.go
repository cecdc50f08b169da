package vpa

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/kubernasium/kubernasium/kwok/health"
	"github.com/kubernasium/kubernasium/kwok/lease"
)

// missedSteps is the number of intervals after which a running step counts as hanging, as in upstream's
// recommender.
const missedSteps = 5

// loop is the state of Run for health checks.
type loop struct {
	mu       sync.Mutex
	interval time.Duration
	began    time.Time // start of the last step; zero while Run does not run
	listed   bool      // a step has listed the autoscalers
	watchdog *leaderelection.HealthzAdaptor
}

func (l *loop) begin(interval time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interval, l.began = interval, time.Now()
}

func (l *loop) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began, l.listed = time.Time{}, false
}

func (l *loop) list() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed = true
}

// live returns an error if a step hangs.
func (l *loop) live() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if since := time.Since(l.began); !l.began.IsZero() && since > missedSteps*l.interval {
		return fmt.Errorf("the last step began %v ago, with an interval of %v", since.Round(time.Millisecond), l.interval)
	}
	return nil
}

// ready returns an error while Run has not listed the autoscalers.
func (l *loop) ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.began.IsZero() && !l.listed {
		return health.ErrUnsynced
	}
	return nil
}

// Checks returns the checks of /livez and /readyz. Live means that no step takes longer than five intervals,
// and that an instance that acts as leader holds the lease. Ready means that the autoscalers have also been
// listed; an instance that waits for the lease is ready.
func (r *Recommender) Checks() (live, ready []health.Check) {
	live = []health.Check{
		{Name: "loop", Err: r.loop.live},
		{Name: r.loop.watchdog.Name(), Err: func() error { return r.loop.watchdog.Check(nil) }},
	}
	return live, append(live[:len(live):len(live)], health.Check{Name: "autoscalers-listed", Err: r.loop.ready})
}

// Lead calls Run while this instance holds the lease, until ctx ends.
func (r *Recommender) Lead(ctx context.Context, l lease.Lease, interval time.Duration, done func(Report)) error {
	l.SetDefaults("vpa-recommender-" + r.config.Name)
	return lease.Hold(ctx, r.client, l, r.loop.watchdog, func(ctx context.Context) {
		r.log.Info("leading", "identity", l.Identity)
		_ = r.Run(ctx, interval, done) // always nil
		if err := r.release(); err != nil {
			r.log.Error("close models", "err", err)
		}
		r.log.Info("no longer leading", "identity", l.Identity)
	})
}

// release closes the models that resume from storage. While another instance leads, they become outdated, and
// their checkpoints would replace newer ones.
func (r *Recommender) release() error {
	if !r.config.Checkpoints && r.config.History == nil {
		return nil // nothing else has what they have learned
	}
	r.past = nil
	var errs []error
	for _, a := range r.known {
		for name, c := range a.containers {
			if c.live.Checkpoint() != nil {
				delete(a.containers, name)
				errs = append(errs, c.model.Close())
			}
		}
	}
	return errors.Join(errs...)
}
