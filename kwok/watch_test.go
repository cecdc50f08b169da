package kwok

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// TestWatcherBacksOff: an API server that answers lists but no watch is asked for a list after 20, 40, … 640 ms and then
// each second: in ten seconds, 1 + 6 + 8 times. A watch that holds for a minute is followed by a list 20 ms later.
func TestWatcherBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var holds time.Duration // of a watch
		var listed []time.Duration
		begun := time.Now()
		w := &watcher{
			kind: kindPod, view: newView(),
			list: func(context.Context) (runtime.Object, error) {
				mu.Lock()
				defer mu.Unlock()
				listed = append(listed, time.Since(begun))
				return &corev1.PodList{}, nil
			},
			watch: func(context.Context, string) (watch.Interface, error) {
				mu.Lock()
				d := holds
				mu.Unlock()
				time.Sleep(d)
				return nil, errors.New("no watch")
			},
		}
		done := make(chan struct{})
		go func() {
			w.run(ctx)
			close(done)
		}()
		time.Sleep(10 * time.Second)
		mu.Lock()
		if len(listed) != 15 {
			t.Errorf("listed %d times in ten seconds, at %v, want 15", len(listed), listed)
		}
		holds = time.Minute
		mu.Unlock()
		time.Sleep(5 * time.Minute)
		mu.Lock()
		last := listed[len(listed)-2:]
		mu.Unlock()
		if got := last[1] - last[0]; got != time.Minute+firstRetry {
			t.Errorf("listed %v after the list before a watch of a minute, want %v", got, time.Minute+firstRetry)
		}
		cancel()
		<-done
	})
}

// TestWatcherWaitsAfterEmptyWatches: an API server that ends each watch at once, without an event, is asked for the next
// one 20 ms later: 50 times in a second.
func TestWatcherWaitsAfterEmptyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second-time.Nanosecond)
		defer cancel()
		watches := 0
		w := &watcher{
			kind: kindPod, view: newView(),
			list: func(context.Context) (runtime.Object, error) { return &corev1.PodList{}, nil },
			watch: func(context.Context, string) (watch.Interface, error) {
				if watches++; watches > 1000 {
					return nil, errors.New("too many")
				}
				return watch.NewEmptyWatch(), nil
			},
		}
		w.run(ctx)
		if watches != 50 {
			t.Errorf("watched %d times in a second, want 50", watches)
		}
	})
}
