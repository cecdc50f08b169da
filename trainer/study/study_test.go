package study

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// opened opens a study of three trials.
func opened(t *testing.T, path string, lease time.Duration) *Study {
	t.Helper()
	s, err := Open(path, "s", map[string]int{"n": 3}, []map[string]any{{"a": 1.0}, {"a": 2.0}, {"a": 3.0}}, lease)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var items = []Item{{0, 0}, {1, 0}, {2, 0}}

// claimed claims the next item, which must be the wanted trial.
func claimed(t *testing.T, s *Study, trial int) Item {
	t.Helper()
	it, ok, err := s.Claim(t.Context(), items)
	if err != nil || !ok || it.Trial != trial {
		t.Fatalf("Claim = %v, %v, %v, want trial %d", it, ok, err, trial)
	}
	return it
}

// TestTakesOver: a claim that nobody renews is taken over after the lease, one that is renewed is not, and
// one that is given back at once. The first result stays.
func TestTakesOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	const lease = 3 * time.Second // a loaded machine may keep a renewal waiting
	dead, alive := opened(t, path, lease), opened(t, path, lease)
	lost := claimed(t, dead, 0)
	held := claimed(t, dead, 1)
	stop := dead.Hold(held)
	last := claimed(t, alive, 2)
	if err := alive.Release(last); err != nil {
		t.Fatal(err)
	}
	claimed(t, alive, 2)
	waits := func(d time.Duration) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		if it, _, err := alive.Claim(ctx, items); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Claim = %v, %v, want to wait", it, err)
		}
	}
	waits(lease / 10)
	got := claimed(t, alive, 0) // after the lease
	waits(lease)                // trial 1 is renewed
	stop()
	one, two := 1.0, 2.0
	if err := errors.Join(alive.Finish(got, "alive", 10, &one), dead.Finish(lost, "dead", 10, &two), dead.Finish(held, "held", 10, &two), alive.Finish(last, "last", 10, nil)); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := alive.Claim(t.Context(), items); ok || err != nil {
		t.Errorf("Claim after the last result: %v, %v", ok, err)
	}
	for _, s := range []*Study{dead, alive, opened(t, path, lease)} {
		var result string
		if ok, err := s.Result(got, &result); !ok || err != nil || result != "alive" {
			t.Errorf("result of trial 0: %q, %v, %v, want the first", result, ok, err)
		}
	}
}

// TestManyClaimOnce: of many processes' views each item goes to one.
func TestManyClaimOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	var mu sync.Mutex
	count := map[Item]int{}
	var all sync.WaitGroup
	for range 8 {
		s := opened(t, path, time.Hour)
		all.Go(func() {
			for {
				it, ok, err := s.Claim(t.Context(), items)
				if err != nil {
					t.Error(err)
				}
				if !ok {
					return
				}
				mu.Lock()
				count[it]++
				mu.Unlock()
				if err := s.Finish(it, it, 1, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, it := range items {
		if count[it] != 1 {
			t.Errorf("%v was claimed %d times", it, count[it])
		}
	}
}

// TestCutLine: a line that a crash cut short is taken off before the next one, or Optuna could not read on.
func TestCutLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	s := opened(t, path, time.Hour)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"op_code":8,"wor`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	claimed(t, s, 0)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), `"wor{`) || !strings.HasSuffix(string(text), "}\n") {
		t.Errorf("the journal has a cut line:\n%s", text)
	}
	claimed(t, opened(t, path, time.Hour), 1)
}

// TestOther: another specification does not join, and the error names the fields that differ, but no long values.
func TestOther(t *testing.T) {
	type params struct {
		Gamma float64 `json:"gamma"`
		Clip  string  `json:"clip,omitempty"`
	}
	type spec struct {
		Algo   string `json:"algo"`
		N      int    `json:"n_trials"`
		Space  string `json:"search_space"`
		Params params `json:"params"`
	}
	first := spec{"ppo", 4, strings.Repeat("a", 1000), params{0.9, ""}}
	for _, tc := range []struct {
		name  string
		given any
		want  string
	}{
		{"a number", spec{"ppo", 5, first.Space, first.Params}, "n_trials 4, not 5"},
		{"several, one nested and one left out", spec{"a2c", 4, first.Space, params{0.9, "0.2"}}, `algo "ppo", not "a2c"; params.clip none, not "0.2"`},
		{"a long one", spec{"ppo", 4, strings.Repeat("b", 1000), first.Params}, "another search_space"},
		{"no object", 5, "another specification"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "j")
			if _, err := Open(path, "s", first, nil, time.Hour); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path, "s", tc.given, nil, time.Hour)
			want := "study: the file holds another study: " + path + " was begun with " + tc.want + "; give the same, or name another file"
			if !errors.Is(err, ErrOther) || err.Error() != want {
				t.Errorf("Open: %v, want %s", err, want)
			}
		})
	}
}
