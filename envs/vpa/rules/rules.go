package rules

import (
	"context"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
	upstream "github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

const mebibyte = 1 << 20

// checkEvery is the number of samples between checks of the context.
const checkEvery = 1 << 12

// View shows a rule its pods after the last step.
type View struct {
	Step      int           // executed steps
	Interval  time.Duration // of a step
	Instant   time.Duration // of the last sample, since the beginning of the first one
	Pods      []pods.Pod
	Seen      []cluster.Resources // usage, the largest of all pods: of the history, then of each step
	Admission *pods.Admission
	Node      cluster.Resources // where pods share it: its capacity
	Load      [2]float64        // … and the CPU and memory used of that in the last step
	Running   *Running          // the cluster of a live task's pods; nil in an episode

	// Only in an episode.
	Past    []cluster.Resources // demand before it
	Coming  []cluster.Resources // demand of all of its steps, for those that know the future
	Shares  []float64           // of the demand, for each pod
	Weights prices.Weights      // of costs
}

// stepsIn returns the number of steps in d, at least 1.
func (v *View) stepsIn(d time.Duration) int { return stepsIn(d, v.Interval) }

func stepsIn(d, interval time.Duration) int { return max(1, int(d/interval)) }

// tail returns the usage seen in the last d.
func (v *View) tail(d time.Duration) []cluster.Resources {
	return v.Seen[max(0, len(v.Seen)-v.stepsIn(d)):]
}

// A Rule returns a recommendation at each step, or false to keep its last one. first is true at an episode's first
// decision. When ctx ends, it returns early, and its result is invalid.
type Rule func(ctx context.Context, v *View, first bool) (pods.Recommendation, bool)

// A Base is a rule that actions can correct. Copy returns one that continues independently.
type Base interface {
	Recommend(ctx context.Context, v *View, first bool) (pods.Recommendation, bool)
	Copy() Base
}

// Follow makes policies of an environment that follow a rule.
type Follow func(newRule func() Rule) func(envs.Task) (envs.Policy, error)

// named is a rule under the name of its baseline.
type named struct {
	name, doc string
	knows     bool // the future
	make      func() Rule
}

// plain are the rules that have no parameters.
var plain = []named{
	{"static", "Keeps the requests of the start.", false, func() Rule { return static }},
	{"moving_window", "CPU at the 95th percentile and memory at the peak of the last 24 hours, plus 15 %, each hour.", false,
		func() Rule { return hourly(movingWindow) }},
	{"seasonal_naive", "The peak of the coming hour as it was a day ago, plus 15 %, each hour.", false,
		func() Rule { return hourly(seasonalNaive) }},
	{"upstream", "The recommender of the Kubernetes vertical pod autoscaler with its defaults, each step.", false, Upstream},
	{"goldilocks_guaranteed", "Goldilocks: request and limit at upstream's target, set once a day.", false,
		func() Rule { return goldilocks(upstream.GuaranteedFrom) }},
	{"goldilocks_burstable", "Goldilocks: request at upstream's lower bound and limit at its upper bound, set once a day.", false,
		func() Rule { return goldilocks(upstream.BurstableFrom) }},
	{"krr_simple", "KRR's strategy simple: CPU at the 95th percentile without a limit, memory request and limit at the peak plus 15 %, each hour.", false,
		func() Rule { return krr(upstream.KRRConfig.Simple) }},
	{"krr_simple_limit", "KRR's strategy simple_limit: CPU request at the 66th and limit at the 96th percentile, memory as krr_simple.", false,
		func() Rule { return krr(upstream.KRRConfig.SimpleLimit) }},
	{"hindsight_max", "The largest demand of the episode that is to come, for all of it.", true,
		func() Rule { return HindsightMax }},
	{"hindsight_static", "The cheapest requests for all of the episode that is to come that let no container be killed.", true,
		func() Rule { return hindsightStatic }},
}

// Plain returns the rules without parameters as baselines; the first keeps the initial requests.
func Plain(follow Follow) []envs.Baseline {
	all := make([]envs.Baseline, len(plain))
	for i, r := range plain {
		all[i] = envs.Baseline{Name: r.name, Doc: r.doc, Clairvoyant: r.knows, New: follow(r.make)}
	}
	return all
}

// Alone returns the rules with parameters as baselines, for pods with their node to themselves. Their names end in
// suffix.
func Alone(follow Follow, suffix string) []envs.Baseline {
	q := quantileBaseline("quantile"+suffix, follow)
	return []envs.Baseline{q, q.Tuned("quantile_tuned"+suffix, tunedAloneDoc, tunedAlone.values()), autopilotBaseline("autopilot"+suffix, follow)}
}

// Shared returns the rules with parameters as baselines, for pods that share their node.
func Shared(follow Follow) []envs.Baseline {
	q, a := quantileBaseline("quantile", follow), autopilotBaseline("autopilot", follow)
	return []envs.Baseline{q, q.Tuned("quantile_tuned", tunedSharedDoc, TunedShared.values()),
		q.Tuned("quantile_tracking", trackingDoc, tunedTracking.values()), nodeAwareBaseline(follow), a,
		a.Tuned("autopilot_tuned", "autopilot with parameters that `trainer tune` found on training episodes.", tunedAutopilot)}
}

// Bytes estimates the memory of a rule in an episode of n pods: histograms, and KRR's samples of each pod.
func Bytes(n, samples int, interval time.Duration) int64 {
	const histograms = 64 << 10
	return histograms + 16*int64(n)*int64(min(samples, stepsIn(krrHistory, interval)))
}
