package vpa

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
	"github.com/kubernasium/kubernasium/envs/vpa/rules"
)

// monday is a Monday, 0:00, a whole number of half-lives after 1970, so that weights decay as
// they do from instant 0 on.
var monday = time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)

type policyFunc func(b *envs.Batch, actions []float32) error

func (f policyFunc) Act(b *envs.Batch, actions []float32) error { return f(b, actions) }

// walk writes usage of n minutes that rises, falls and jumps.
func walk(t *testing.T, n int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 0))
	var text strings.Builder
	text.WriteString("time_s,cpu_m,mem_b\n")
	cpu, mem := 400.0, 600.0
	for i := range n {
		cpu = min(max(cpu*(0.8+0.45*rng.Float64()), 50), 3000)
		mem = min(max(mem*(0.9+0.22*rng.Float64()), 100), 4000)
		fmt.Fprintf(&text, "%d,%d,%d\n", 60*i, int(cpu), int(mem)*mib)
	}
	return envstest.TempFile(t, "usage.csv", text.String())
}

// episode is one in memory, step by step.
type episode struct {
	*Task
	c        cluster.Cluster
	restarts map[int32]int // of the container of the pod
	untimed  bool          // the cluster does not show when pods were created
	batch    *envs.Batch
	action   []float32
}

func newTaskOf(t *testing.T, discrete bool, opts map[string]any) *Task {
	t.Helper()
	o := DefaultOptions()
	if err := envs.DecodeOptions(opts, &o); err != nil {
		t.Fatal(err)
	}
	src, err := newSource(o, discrete)
	if err != nil {
		t.Fatal(err)
	}
	return newTask(src)
}

// shown returns the pods as a cluster would show them.
func (e *episode) shown() []LivePod {
	at := func(d time.Duration) time.Time { return monday.Add(e.Interval() + d) }
	var pods []LivePod
	for i := range e.dynamics.Pods {
		p := &e.dynamics.Pods[i]
		created, since := at(p.Created), at(p.Since)
		if e.untimed {
			created, since = time.Time{}, time.Time{}
		}
		if p.OOM {
			e.restarts[p.Index]++
		}
		pods = append(pods, LivePod{
			ID: fmt.Sprint(p.Index), Requests: p.Requests, Limits: p.Limits, Used: p.Used, Sampled: p.Sampled || e.steps == 0,
			Scheduled: p.Scheduled, Running: p.Began, Serving: p.Scheduled && p.Ready <= e.now(), Created: created,
			Restarts: e.restarts[p.Index], OOMKilled: p.Killed, Ran: p.Ran, Resize: p.Resize, ResizeSince: since,
		})
	}
	return pods
}

// resizing reports whether a resize of some pod waits.
func (e *episode) resizing() bool {
	return slices.ContainsFunc(e.dynamics.Pods, func(p pods.Pod) bool { return p.Resize != pods.ResizeNone })
}

// play compares the steps of an episode with what a Live makes of its pods.
func (e *episode) play(t *testing.T, l *Live, ours, theirs Policy) {
	ctx := context.Background()
	if err := e.Begin(ctx, e.c, rand.New(pcg.New(1))); err != nil {
		t.Fatal(err)
	}
	if err := l.Configure(LiveConfig{Requests: e.admission.Initial, Limits: e.admission.Limits, Mode: e.opts.Mode, MinReplicas: 1, Containers: 1}); err != nil {
		t.Fatal(err)
	}
	for e.steps < e.opts.Steps {
		if err := l.Look(monday.Add(e.Interval()*time.Duration(e.steps+1)), len(e.dynamics.Pods), e.shown()); err != nil {
			t.Fatal(err)
		}
		rec, err := l.Next(ours)
		if err != nil {
			t.Fatal(err)
		}
		k := e.steps % e.opts.Hold
		if k == 0 {
			e.plan.follow = nil
			e.Observe(e.c.State(), e.batch.Obs, e.batch.Mask)
			obs := slices.Clone(l.Observation())
			obs[22], obs[23] = e.batch.Obs[22], e.batch.Obs[23] // what no cluster shows
			if diff := cmp.Diff(e.batch.Obs, obs); diff != "" {
				t.Fatalf("step %d: observation (-episode +live)\n%s", e.steps, diff)
			}
			if err := theirs.Act(e.batch, e.action); err != nil {
				t.Fatal(err)
			}
			e.batch.EpisodeLength[0]++
		}
		var changed prices.Events
		if err := l.Update(func(u LiveUpdate) (bool, error) {
			if u.Evict {
				changed.Evictions++
			} else {
				changed.Resizes++
			}
			return false, nil
		}); err != nil {
			t.Fatal(err)
		}
		waiting := e.resizing()
		e.decide(t.Context(), e.action, k)
		if rec != e.rec {
			t.Fatalf("step %d: recommendation %+v, in the episode %+v", e.steps, rec, e.rec)
		}
		if err := e.act(ctx, e.c); err != nil {
			t.Fatal(err)
		}
		waiting = waiting || e.resizing() // a resize is tried in one step, and done in another
		if changed.Evictions != e.dynamics.Last.Evictions || changed.Resizes != e.dynamics.Last.Resizes && !waiting {
			t.Fatalf("step %d: %d evicted and %d resized, in the episode %d and %d", e.steps, changed.Evictions, changed.Resizes, e.dynamics.Last.Evictions, e.dynamics.Last.Resizes)
		}
	}
}

// TestLiveEqualsEpisode looks at the pods of episodes in memory, and sees what the environment
// shows, recommends what is in force there and changes the pods that the updater changes there.
func TestLiveEqualsEpisode(t *testing.T) {
	const steps = 300
	path := walk(t, steps+1)
	policy := func(name string) func(*Task) Policy {
		return func(task *Task) Policy {
			for _, b := range rules.Plain(follow) {
				if b.Name == name {
					r, err := b.New(task)
					if err != nil {
						t.Fatal(err)
					}
					return policyFunc(func(b *envs.Batch, actions []float32) error { return r(t.Context(), nil, b.Begins(0), actions) })
				}
			}
			t.Fatalf("no baseline %s", name)
			return nil
		}
	}
	random := func(*Task) Policy {
		rng := rand.New(rand.NewPCG(3, 3))
		return policyFunc(func(_ *envs.Batch, actions []float32) error {
			if len(actions) == 1 {
				actions[0] = float32(rng.IntN(49))
				return nil
			}
			for i := range actions {
				actions[i] = float32(rng.Float64()*0.6 - 0.1)
			}
			return nil
		})
	}
	for _, tc := range []struct {
		name     string
		discrete bool
		policy   func(*Task) Policy
		opts     map[string]any
		ooms     bool
	}{
		{"upstream in place", false, policy("upstream"), map[string]any{"mode": pods.ModeInPlaceOrRecreate}, false},
		{"upstream recreated", false, policy("upstream"), map[string]any{"pods": 3, "pod_spread": 0.3}, false},
		{"moving window", false, policy("moving_window"), map[string]any{"mode": pods.ModeInPlaceOrRecreate, "pods": 2}, false},
		{"KRR", false, policy("krr_simple"), map[string]any{"pods": 2}, true},
		{"actions that hold", false, random, map[string]any{"encoding": EncodingUpstream, "safety": SafetyMemory, "hold": 10}, false},
		{"actions of a log scale", false, random, map[string]any{"mode": pods.ModeInPlaceOrRecreate, "pods": 4}, false},
		{"factors", true, random, map[string]any{"mode": pods.ModeInPlace, "pods": 2}, true},
		{"kills", false, policy("upstream"), map[string]any{"limit_ratio_memory": 1.05, "startup_s": 10}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opts := map[string]any{
				"data": path, "split": SplitAll, "steps": steps, "history_h": 0, "initial_low": 1, "initial_high": 1, "limit_ratio_cpu": 8,
				"limit_ratio_memory": 8, "startup_s": 0, "pod_spread": 0,
			}
			maps.Copy(opts, tc.opts)
			e := &episode{Task: newTaskOf(t, tc.discrete, opts), c: sim.New(), restarts: map[int32]int{}, untimed: tc.opts["pods"] != nil}
			obs, act := e.Spaces()
			e.action = make([]float32, act.Size())
			e.batch = &envs.Batch{Obs: make([]float32, obs.Size()), Mask: make([]bool, space.MaskSize(act)), Reward: make([]float64, 1),
				Terminated: make([]bool, 1), Truncated: make([]bool, 1), EpisodeLength: make([]int64, 1)}
			task := newTaskOf(t, tc.discrete, opts)
			l, err := NewLive(task, LiveConfig{Mode: pods.ModeOff, MinReplicas: 1, Containers: 1})
			if err != nil {
				t.Fatal(err)
			}
			e.play(t, l, tc.policy(task), tc.policy(e.Task))
			t.Logf("%d evictions, %d resizes, %d OOM kills", e.ledger.Sum.Evictions, e.ledger.Sum.Resizes, e.ledger.Sum.OOMs)
			if e.ledger.Sum.Evictions+e.ledger.Sum.Resizes == 0 || (e.ledger.Sum.OOMs > 0) != tc.ooms {
				t.Errorf("%d evictions, %d resizes and %d OOM kills are not what the case is for", e.ledger.Sum.Evictions, e.ledger.Sum.Resizes, e.ledger.Sum.OOMs)
			}
		})
	}
}

// upstreamPolicy asks upstream's recommender, as the baseline does.
func upstreamPolicy(t *testing.T, task *Task) Policy {
	t.Helper()
	r, err := follow(rules.Upstream)(task)
	if err != nil {
		t.Fatal(err)
	}
	return policyFunc(func(b *envs.Batch, actions []float32) error { return r(t.Context(), nil, b.Begins(0), actions) })
}

// TestLivePodsComeAndGo: upstream's recommender keeps the pods that stay, and resumes from a
// checkpoint after a restart.
func TestLivePodsComeAndGo(t *testing.T) {
	request := cluster.Resources{MilliCPU: 500, MemoryBytes: gib}
	config := LiveConfig{Requests: request, Limits: cluster.Resources{MilliCPU: 1000, MemoryBytes: 2 * gib}, Mode: pods.ModeRecreate, MinReplicas: 1, Containers: 2}
	start := func() (*Live, Policy) {
		task := newTaskOf(t, false, nil)
		l, err := NewLive(task, config)
		if err != nil {
			t.Fatal(err)
		}
		return l, upstreamPolicy(t, task)
	}
	look := func(l *Live, p Policy, at int, ids ...string) pods.Recommendation {
		t.Helper()
		var pods []LivePod
		for _, id := range ids {
			pods = append(pods, LivePod{ID: id, Requests: request, Limits: config.Limits, Used: cluster.Resources{MilliCPU: 1000, MemoryBytes: 5_242_880_000},
				Sampled: true, Scheduled: true, Running: true, Serving: true})
		}
		if err := l.Look(monday.Add(time.Duration(at)*time.Minute), len(pods), pods); err != nil {
			t.Fatal(err)
		}
		r, err := l.Next(p)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	l, p := start()
	at, last := 0, pods.Recommendation{}
	for _, ids := range [][]string{{"a"}, {"a", "b", "c"}, {"c"}, {"d", "c"}, {"e"}} {
		for range 60 {
			at++
			last = look(l, p, at, ids...)
		}
	}
	// 1168 m and 6117462922 bytes are worked by hand from 1 core and 5000 MiB: bucket 36 ends at
	// 1.01628 cores and bucket 67 at 5319532976 bytes, and 15 % more is truncated.
	if want := (cluster.Resources{MilliCPU: 1168, MemoryBytes: 6_117_462_922}); last.Target != want {
		t.Errorf("target %+v, want %+v", last.Target, want)
	}
	// 60 samples of one pod, 60 of three, 60 of one, 60 of two, 60 of one.
	saved := l.Checkpoint()
	if saved == nil || saved.TotalSamplesCount != 480 {
		t.Fatalf("checkpoint %+v, want one of 480 samples", saved)
	}
	if want := monday.Add(time.Duration(at) * time.Minute); !saved.LastSampleStart.Equal(want) {
		t.Errorf("the last sample is of %v, want %v", saved.LastSampleStart, want)
	}
	again, p := start()
	if err := again.Restore(saved); err != nil {
		t.Fatal(err)
	}
	look(again, p, at+1, "e")
	if got := again.Checkpoint().TotalSamplesCount; got != 481 {
		t.Errorf("%d samples after a restart, want 481", got)
	}
	if err := again.Restore(saved); err == nil {
		t.Error("a checkpoint was restored after the first look")
	}
}

func TestLiveErrors(t *testing.T) {
	good := LiveConfig{Mode: pods.ModeOff, MinReplicas: 1, Containers: 1}
	for _, tc := range []struct {
		want   string
		change func(*LiveConfig)
	}{
		{`mode "Auto"`, func(c *LiveConfig) { c.Mode = "Auto" }},
		{"min replicas -1", func(c *LiveConfig) { c.MinReplicas = -1 }},
		{"CPU from 200 to 100", func(c *LiveConfig) { c.Min.MilliCPU, c.Max.MilliCPU = 200, 100 }},
	} {
		c := good
		tc.change(&c)
		if _, err := NewLive(newTaskOf(t, false, nil), c); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("NewLive: %v, want an error with %q", err, tc.want)
		}
	}
	if _, err := NewLive(nil, good); err == nil {
		t.Error("NewLive of no task: no error")
	}
	l, err := NewLive(newTaskOf(t, false, nil), good)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Next(policyFunc(nil)); err == nil {
		t.Error("Next before a look: no error")
	}
	if err := l.Look(monday, 1, nil); err == nil {
		t.Error("Look at no pods: no error")
	}
	for i, wrong := range []bool{false, true} {
		if err := l.Look(monday, 1, []LivePod{{ID: "a"}}); (err != nil) != wrong {
			t.Errorf("look %d at the same instant: %v", i, err)
		}
	}
}

// TestLiveRefused: a resize that the API refuses becomes an eviction, but not in mode InPlace.
func TestLiveRefused(t *testing.T) {
	request := cluster.Resources{MilliCPU: 4000, MemoryBytes: 8 * gib}
	for mode, want := range map[string]string{pods.ModeInPlaceOrRecreate: "[false true]", pods.ModeInPlace: "[false]", pods.ModeRecreate: "[true]", pods.ModeOff: "[]", pods.ModeInitial: "[]"} {
		task := newTaskOf(t, false, nil)
		l, err := NewLive(task, LiveConfig{Requests: request, Mode: mode, MinReplicas: 1, Containers: 1})
		if err != nil {
			t.Fatal(err)
		}
		lower := policyFunc(func(_ *envs.Batch, actions []float32) error { return nil }) // half of the scale
		if err := l.Look(monday, 1, []LivePod{{ID: "a", Requests: request, Scheduled: true, Running: true, Serving: true}}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Next(lower); err != nil {
			t.Fatal(err)
		}
		evict := []bool{}
		if err := l.Update(func(u LiveUpdate) (bool, error) {
			evict = append(evict, u.Evict)
			return true, nil
		}); err != nil || fmt.Sprint(evict) != want {
			t.Errorf("%s: evictions %v, %v; want %s", mode, evict, err, want)
		}
	}
}

// TestLiveRecalls: what a pod that lives and one that is gone have used before the first look counts as if it had been
// looked at.
func TestLiveRecalls(t *testing.T) {
	const bytes = 5_242_880_000
	request := cluster.Resources{MilliCPU: 100, MemoryBytes: 100 * mib}
	pod := LivePod{ID: "b", Requests: request, Used: request, Sampled: true, Scheduled: true, Running: true, Serving: true}
	recommend := func(samples ...rules.Sample) pods.Recommendation {
		t.Helper()
		task := newTaskOf(t, false, nil)
		l, err := NewLive(task, LiveConfig{Requests: request, Containers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Recall(samples); err != nil {
			t.Fatal(err)
		}
		if err := l.Look(monday, 1, []LivePod{pod}); err != nil {
			t.Fatal(err)
		}
		r, err := l.Next(upstreamPolicy(t, task))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Recall(nil); err == nil {
			t.Error("Recall after a look: no error")
		}
		return r
	}
	var samples []rules.Sample
	for h := range 48 {
		for _, id := range []string{"gone", "b"} {
			at := monday.Add(-time.Duration(48-h) * time.Hour)
			samples = append(samples, rules.Sample{Pod: id, At: at, Amount: 1000}, rules.Sample{Pod: id, At: at, Memory: true, Amount: bytes})
		}
	}
	// 1 core ends in bucket 36 at 1.01628 cores, and 15 % more is 1168 m; 5000 MiB likewise: 6117462922 bytes.
	if got, want := recommend(samples...).Target, (cluster.Resources{MilliCPU: 1168, MemoryBytes: 6_117_462_922}); got != want {
		t.Errorf("with samples of two days the target is %v, want %v", got, want)
	}
	if got := recommend().Target; got.MilliCPU >= 200 {
		t.Errorf("without samples the target is %v, want one near the pod's 100 m", got)
	}
}
