package plane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// ClockPath is the path of a SteppedClock on the API server. GET returns the time; POST with {"advance": "5s"}
// steps it. Both reply {"now": "<RFC 3339>"}.
const ClockPath = "/kubernasium.io/clock"

// recheck limits the delay of a waiter that misses a step between reading the clock and waiting.
const recheck = 20 * time.Millisecond

// A SteppedClock stands still until it is stepped. It is KWOK's clock when stages take simulated
// time. Several goroutines may call its methods.
//
// Waits on it (After, Sleep, timers) may end early, at most every 20 ms and at every step: KWOK's
// queues then read the time again. NewTimer, NewTicker and Tick keep real time.
type SteppedClock struct {
	clock.RealClock

	mu      sync.Mutex
	now     time.Time
	stepped chan struct{} // closed by the next step
}

var _ clock.WithTicker = (*SteppedClock)(nil)

// NewSteppedClock returns a clock that shows start.
func NewSteppedClock(start time.Time) *SteppedClock {
	return &SteppedClock{now: start, stepped: make(chan struct{})}
}

// Now returns the simulated time.
func (c *SteppedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Since returns the simulated time since t.
func (c *SteppedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Step advances the clock by d and wakes all waiters. It panics if d is negative.
func (c *SteppedClock) Step(d time.Duration) time.Time {
	if d < 0 {
		panic(fmt.Sprintf("plane: step by %v", d))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	close(c.stepped)
	c.stepped = make(chan struct{})
	return c.now
}

// After returns a channel that receives the time at the next step, or a little later without
// one: see SteppedClock.
func (c *SteppedClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	stepped := c.stepped
	c.mu.Unlock()
	fired := make(chan time.Time, 1)
	go func() {
		select {
		case <-stepped:
		case <-time.After(min(d, recheck)):
		}
		fired <- c.Now()
	}()
	return fired
}

// Sleep waits as After does.
func (c *SteppedClock) Sleep(d time.Duration) { <-c.After(d) }

// ServeHTTP serves ClockPath.
func (c *SteppedClock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := c.Now()
	switch r.Method {
	case http.MethodGet:
	case http.MethodPost:
		var step struct {
			Advance string `json:"advance"`
		}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&step); err != nil {
			http.Error(w, fmt.Sprintf(`body is not JSON such as {"advance": "5s"}: %v`, err), http.StatusBadRequest)
			return
		}
		d, err := time.ParseDuration(step.Advance)
		if err != nil || d < 0 {
			http.Error(w, fmt.Sprintf("advance is %q, want a duration of at least 0 such as 5s", step.Advance), http.StatusBadRequest)
			return
		}
		now = c.Step(d)
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "method "+r.Method+" is not GET or POST", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"now": now.Format(time.RFC3339Nano)})
}
