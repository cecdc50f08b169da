package vpa

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	upstream "github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

// A recommender returns a recommendation at each step, or false to keep its last one. first is true
// at an episode's first decision. When ctx ends it returns early, and its result is not used.
type recommender func(ctx context.Context, t *Task, first bool) (pods.Recommendation, bool)

// rule is a recommender under the name of its baseline.
type rule struct {
	name, doc string
	oracle    bool
	make      func() recommender
}

// rules are the recommenders that have no parameters.
var rules = []rule{
	{"static", "Keeps the requests of the start.", false, func() recommender { return static }},
	{"moving_window", "CPU at the 95th percentile and memory at the peak of the last 24 hours, plus 15 %, each hour.", false,
		func() recommender { return hourly(movingWindow) }},
	{"seasonal_naive", "The peak of the coming hour as it was a day ago, plus 15 %, each hour.", false,
		func() recommender { return hourly(seasonalNaive) }},
	{"upstream", "The recommender of the Kubernetes vertical pod autoscaler with its defaults, each step.", false, newUpstream},
	{"goldilocks_guaranteed", "Goldilocks: request and limit at upstream's target, set once a day.", false,
		func() recommender { return goldilocks(upstream.GuaranteedFrom) }},
	{"goldilocks_burstable", "Goldilocks: request at upstream's lower bound and limit at its upper bound, set once a day.", false,
		func() recommender { return goldilocks(upstream.BurstableFrom) }},
	{"krr_simple", "KRR's strategy simple: CPU at the 95th percentile without a limit, memory request and limit at the peak plus 15 %, each hour.", false,
		func() recommender { return krr(upstream.KRRConfig.Simple) }},
	{"krr_simple_limit", "KRR's strategy simple_limit: CPU request at the 66th and limit at the 96th percentile, memory as krr_simple.", false,
		func() recommender { return krr(upstream.KRRConfig.SimpleLimit) }},
	{"hindsight_max", "The largest demand of the episode that is to come, for all of it.", true,
		func() recommender { return hindsightMax }},
	{"hindsight_static", "The cheapest requests for all of the episode that is to come that let no container be killed.", true,
		func() recommender { return hindsightStatic }},
}

// baselinesOf returns the baselines of rules. With exact, their names end in _exact and they set
// their amounts on the discrete environment too.
func baselinesOf(rules []rule, exact bool) []envs.Baseline {
	all := make([]envs.Baseline, len(rules))
	for i, r := range rules {
		all[i] = envs.Baseline{Name: r.name, Doc: r.doc, Oracle: r.oracle, New: follow(r.make, exact)}
		if exact {
			all[i].Name, all[i].Doc = r.name+"_exact", strings.TrimSuffix(r.doc, ".")+"; sets its amounts as they are."
		}
	}
	return all
}

// discreteBaselines returns each rule twice: by the factors of the discrete environment, and with
// exact amounts. Keeping the first requests is exact as it is.
func discreteBaselines() []envs.Baseline {
	return slices.Concat(baselinesOf(rules, false), baselinesOf(rules[1:], true), aloneParametric("", false), aloneParametric("_exact", true))
}

// continuousBaselines returns the baselines of the continuous environment.
func continuousBaselines() []envs.Baseline {
	return append(baselinesOf(rules, false), aloneParametric("", false)...)
}

// aloneParametric returns the baselines with parameters where pods have their node to themselves. Their names
// end in suffix.
func aloneParametric(suffix string, exact bool) []envs.Baseline {
	q := quantileBaseline("quantile"+suffix, exact)
	return []envs.Baseline{q, q.Tuned("quantile_tuned"+suffix, tunedAloneDoc, tunedAlone.values()), autopilotBaseline("autopilot"+suffix, exact)}
}

// sharedBaselines returns the baselines where pods share their node. Those that know the future of the
// pods' own demand bound nothing there, and are left out.
func sharedBaselines() []envs.Baseline {
	a := autopilotBaseline("autopilot", false)
	competing := slices.DeleteFunc(slices.Clone(rules), func(r rule) bool { return r.oracle })
	q := quantileBaseline("quantile", false)
	return append(baselinesOf(competing, false), q, q.Tuned("quantile_tuned", tunedSharedDoc, tunedShared.values()), a,
		a.Tuned("autopilot_tuned", "autopilot with parameters that `trainer tune` found on training episodes.", tunedAutopilot))
}

// follow returns a function that makes the policy of a recommender. On the continuous environment
// the policy leaves a plan with the exact recommendation beside the nearest action. On the discrete
// one it leaves the nearest action alone, unless exact. If an action holds for several steps, the plan
// calls the recommender again at each.
func follow(make func() recommender, exact bool) func(envs.Task) (envs.Policy, error) {
	return func(task envs.Task) (envs.Policy, error) {
		t, ok := task.(*Task)
		if !ok {
			return nil, fmt.Errorf("vpa: a recommender for a task of type %T", task)
		}
		recommend := make()
		var last pods.Recommendation
		next := func(ctx context.Context, first bool) pods.Recommendation {
			if r, ok := recommend(ctx, t, first); ok {
				last = r
			} else if first {
				last = t.rec // the requests at the start
			}
			return last
		}
		further := func(ctx context.Context) pods.Recommendation { return next(ctx, false) }
		return func(ctx context.Context, _ *cluster.State, first bool, action []float32) error {
			r := next(ctx, first)
			if err := ctx.Err(); err != nil {
				return err
			}
			t.encode(&r, action)
			if t.src.discrete && !exact {
				return nil
			}
			t.plan = plan{given: r, use: true, follow: further}
			return nil
		}, nil
	}
}

func static(_ context.Context, t *Task, _ bool) (pods.Recommendation, bool) {
	return pods.Constant(t.admission.Initial), true
}

// margin is that of recommenders over what they have seen.
const margin = 1.15

// hourly returns a recommender that calls ask at the first step, once an hour and after an OOM kill.
// For a day after a kill, its memory target is no less than upstream's bump: the larger of 1.2 times
// the limit and the limit plus 100 MiB.
func hourly(ask func(ctx context.Context, t *Task, scratch *[]float64) pods.Recommendation) recommender {
	var scratch []float64
	floor, until := 0.0, 0
	return func(ctx context.Context, t *Task, first bool) (pods.Recommendation, bool) {
		if first {
			floor, until = 0, 0
		}
		killed := false
		for i := range t.dynamics.Pods {
			if p := &t.dynamics.Pods[i]; !first && p.OOM {
				limit := float64(p.Used.MemoryBytes) // a killed container's usage is its limit
				floor, until, killed = max(floor, 1.2*limit, limit+100*mib), t.steps+t.stepsIn(24*time.Hour), true
			}
		}
		if t.steps >= until {
			floor = 0
		}
		if !first && !killed && t.steps%t.stepsIn(time.Hour) != 0 {
			return pods.Recommendation{}, false
		}
		r := ask(ctx, t, &scratch)
		if float64(r.Target.MemoryBytes) < floor {
			atFloor := pods.Banded(0, floor)
			r.Lower.MemoryBytes, r.Target.MemoryBytes, r.Upper.MemoryBytes, r.Uncapped.MemoryBytes =
				atFloor.Lower.MemoryBytes, atFloor.Target.MemoryBytes, atFloor.Upper.MemoryBytes, atFloor.Target.MemoryBytes
		}
		return r, true
	}
}

// stepsIn returns the number of steps in d, at least 1.
func (t *Task) stepsIn(d time.Duration) int { return max(1, int(d/t.Interval())) }

// tail returns the usage seen in the last d.
func (t *Task) tail(d time.Duration) []cluster.Resources {
	return t.metrics.Seen[max(0, len(t.metrics.Seen)-t.stepsIn(d)):]
}

func movingWindow(ctx context.Context, t *Task, scratch *[]float64) pods.Recommendation {
	seen := t.tail(24 * time.Hour)
	return pods.Banded(margin*metrics.CPUQuantile(ctx, seen, 0.95, scratch), margin*peakMemory(seen))
}

// seasonalNaive falls back to the last hour where there is no day of history.
func seasonalNaive(_ context.Context, t *Task, _ *[]float64) pods.Recommendation {
	day, hour := t.stepsIn(24*time.Hour), t.stepsIn(time.Hour)
	from := len(t.metrics.Seen) - day
	coming := t.tail(time.Hour)
	if from >= 0 {
		coming = t.metrics.Seen[from:min(from+hour, len(t.metrics.Seen))]
	}
	cpu := 0.0
	for _, u := range coming {
		cpu = max(cpu, float64(u.MilliCPU))
	}
	return pods.Banded(margin*cpu, margin*peakMemory(coming))
}

func peakMemory(seen []cluster.Resources) float64 {
	most := int64(0)
	for _, u := range seen {
		most = max(most, u.MemoryBytes)
	}
	return float64(most)
}

// newUpstream recommends as the Kubernetes vertical pod autoscaler does with its defaults.
func newUpstream() recommender {
	f := newFeed()
	return func(ctx context.Context, t *Task, first bool) (pods.Recommendation, bool) {
		f.observe(ctx, t, first)
		return f.recommend(), true
	}
}

// goldilocks sets requests and limits once a day, as an operator does who reads its report.
func goldilocks(from func(upstream.Bounds) upstream.Requests) recommender {
	f := newFeed()
	return func(ctx context.Context, t *Task, first bool) (pods.Recommendation, bool) {
		f.observe(ctx, t, first)
		if !first && t.steps%t.stepsIn(24*time.Hour) != 0 {
			return pods.Recommendation{}, false
		}
		f.state.Recommend(&f.rec)
		return asSet(from(f.rec.Bounds)), true
	}
}

// asSet returns the recommendation of given requests and limits.
func asSet(r upstream.Requests) pods.Recommendation {
	set := pods.Constant(cluster.Resources(r.Request))
	set.Limits, set.SetLimits = cluster.Resources(r.Limit), true
	return set
}

// krrHistory is how far back KRR looks.
const krrHistory = 14 * 24 * time.Hour

// krr follows a strategy of KRR with its defaults. Its report is applied each hour, as far as it
// differs by more than the band of [banded]; applying every change would evict a pod each hour.
// Below KRR's least number of points nothing is recommended.
func krr(strategy func(upstream.KRRConfig, *upstream.History) (upstream.Requests, error)) recommender {
	config := upstream.DefaultKRRConfig()
	var h upstream.History
	push := func(i int, u cluster.Resources) {
		h.MilliCPU[i] = append(h.MilliCPU[i], float64(u.MilliCPU))
		h.MemoryBytes[i] = append(h.MemoryBytes[i], float64(u.MemoryBytes))
	}
	return func(ctx context.Context, t *Task, first bool) (pods.Recommendation, bool) {
		if first {
			h = upstream.History{MilliCPU: make([][]float64, len(t.dynamics.Pods)), MemoryBytes: make([][]float64, len(t.dynamics.Pods))}
		}
		for len(h.MilliCPU) < len(t.dynamics.Pods) { // pods that run elsewhere come and go
			h.MilliCPU, h.MemoryBytes = append(h.MilliCPU, nil), append(h.MemoryBytes, nil)
		}
		h.MilliCPU, h.MemoryBytes = h.MilliCPU[:len(t.dynamics.Pods)], h.MemoryBytes[:len(t.dynamics.Pods)]
		for i := range t.dynamics.Pods {
			p := &t.dynamics.Pods[i]
			switch {
			case first && t.live == nil:
				for k, u := range t.in.past() {
					if k%checkEvery == 0 && ctx.Err() != nil {
						return pods.Recommendation{}, false
					}
					push(i, metrics.Scale(u, t.in.shares[i]))
				}
			case p.Sampled:
				push(i, p.Used)
			}
			if !first && p.OOM {
				h.OOMLimit = max(h.OOMLimit, float64(p.Limits.MemoryBytes))
			}
			if old := len(h.MilliCPU[i]) - t.stepsIn(krrHistory); old > 0 {
				h.MilliCPU[i], h.MemoryBytes[i] = h.MilliCPU[i][old:], h.MemoryBytes[i][old:]
			}
		}
		if !first && t.steps%t.stepsIn(time.Hour) != 0 {
			return pods.Recommendation{}, false
		}
		set, err := strategy(config, &h)
		if err != nil {
			return pods.Recommendation{}, false // too few points
		}
		r := pods.Banded(float64(set.Request.MilliCPU), float64(set.Request.MemoryBytes))
		r.Limits, r.SetLimits = cluster.Resources(set.Limit), true
		return r, true
	}
}
