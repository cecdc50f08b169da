package all_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// TestEstimates compares what environments say that they take with what the heap grows by when they play an
// episode, with their defaults and with options at their ends. An estimate bounds an episode from above. It is at
// most three times what the defaults take, and 32 times what options take under which much may happen, and
// does not: 64 pods that are evicted at each step.
func TestEstimates(t *testing.T) {
	const most = 64 << 20
	for _, spec := range envstest.Own() {
		base := estimate(t, spec, nil, 1)
		check(t, spec, envstest.Extreme{Name: "default"}, base, 3)
		if testing.Short() {
			continue
		}
		for _, x := range extremes(spec) {
			if bytes := estimate(t, spec, x.Options, 1); bytes <= most && bytes != base {
				check(t, spec, x, bytes, 32)
			}
		}
	}
}

// check plays an episode and compares the heap with the estimate.
func check(t *testing.T, spec *envs.Spec, x envstest.Extreme, bytes, factor int64) {
	t.Helper()
	const slack = 64 << 10 // of the collector, and of an environment without options
	before := heap()
	v, err := envs.NewVec(spec, 1, envs.VecOptions{Options: x.Options, Autoreset: envs.Disabled})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	b, err := v.Reset(t.Context(), envs.VecResetOptions{})
	if err != nil {
		return // the cluster permits less than the options together ask for
	}
	p, err := envs.NewPolicies(v, envs.RandomName, 1)
	for steps := 0; err == nil && !b.Done(0) && steps < 3000; steps++ {
		b, err = p.Step(t.Context())
	}
	if err != nil {
		t.Logf("%s %v: %v", spec.ID, x.Options, err) // an episode that ends as it begins
	}
	grown := max(0, heap()-before)
	runtime.KeepAlive(v)
	if grown > bytes+slack || err == nil && b.Done(0) && bytes > factor*(grown+slack) {
		t.Errorf("%s with %s, %v: an estimate of %d kB, and the heap grows by %d kB, want between that and %d times that", spec.ID, x.Name, x.Options, bytes>>10, grown>>10, factor)
	}
}

var extremesOf sync.Map

// extremes returns the ends of options, and without -short their combinations, found once for all tests.
func extremes(spec *envs.Spec) []envstest.Extreme {
	once, _ := extremesOf.LoadOrStore(spec.ID, sync.OnceValue(func() []envstest.Extreme {
		if testing.Short() {
			return envstest.Ends(spec)
		}
		return envstest.Extremes(spec)
	}))
	return once.(func() []envstest.Extreme)()
}

func heap() int64 {
	for range 3 { // two free what lies in a sync.Pool, which belongs to no environment
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

var errEnough = errors.New("enough is known")

// estimate returns what n environments say that they take.
func estimate(t *testing.T, spec *envs.Spec, opts map[string]any, n int) (bytes int64) {
	t.Helper()
	_, err := envs.NewVec(spec, n, envs.VecOptions{Options: opts, Admit: func(b int64) error {
		bytes = b
		return errEnough
	}})
	if !errors.Is(err, errEnough) {
		t.Fatalf("%s with %v: %v", spec.ID, opts, err)
	}
	return bytes
}

// TestGreatestIsTooMuch: 4,096 environments with all options at their greatest take more than a machine of 64 GiB
// gives them, wherever options decide how much memory is taken. An environment whose options reach the
// gigabytes must say so by [envs.Sized].
func TestGreatestIsTooMuch(t *testing.T) {
	if testing.Short() {
		t.Skip("combinations of options take a minute; run without -short")
	}
	const n, machine = 4096, 64 << 30
	for _, spec := range envstest.Own() {
		var most, base int64
		for _, x := range extremes(spec) {
			most = max(most, estimate(t, spec, x.Options, n))
		}
		if base = estimate(t, spec, nil, n); most > 2*base && most < machine {
			t.Errorf("%s: %d of the greatest take %d MB, want above %d", spec.ID, n, most>>20, int64(machine)>>20)
		}
		if !strings.HasPrefix(spec.ID, "classic/") && most <= 2*base {
			t.Errorf("%s: %d of the greatest take %d MB and of the defaults %d, want options to count", spec.ID, n, most>>20, base>>20)
		}
	}
}
