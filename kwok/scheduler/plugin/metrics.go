package plugin

import (
	"context"
	"errors"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kubernasium/kubernasium/agents/live"
)

// Values of the label result of the metric decisions. Except for resultPolicy, kube-scheduler's own scores
// decided.
const (
	resultPolicy        = "policy"
	resultTimeout       = "timeout"
	resultUnschedulable = "unschedulable" // no node has room for the pod in the policy's view of the cluster
	resultError         = "error"
)

// Metrics of the plugin, in kube-scheduler's own registry.
var (
	decisions = metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: "kubernasium", Name: "decisions_total", StabilityLevel: metrics.ALPHA,
		Help: "Decisions among several feasible nodes, by profile and by what decided: policy, or kube-scheduler's scores because of timeout, unschedulable or error."}, []string{"profile", "result"})
	duration = metrics.NewHistogramVec(&metrics.HistogramOpts{Subsystem: "kubernasium", Name: "decision_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help: "Time of the policy's decisions: preferences, state and choice.", Buckets: metrics.ExponentialBuckets(1e-5, 2, 18)}, []string{"profile"})
	imbalancePercent = metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: "kubernasium", Name: "imbalance_percent", StabilityLevel: metrics.ALPHA,
		Help: "After the last binding: mean of the standard deviations over nodes of the requested shares of CPU and memory."}, []string{"profile"})
	reloads = metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: "kubernasium", Name: "model_reloads_total", StabilityLevel: metrics.ALPHA,
		Help: "Changes of the model file, by result: ok, or error, after which the model before stays."}, []string{"result"})
	requests = metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: "kubernasium", Name: "score_requests_total", StabilityLevel: metrics.ALPHA,
		Help: "Requests to POST /score, by status."}, []string{"code"})
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(decisions, duration, imbalancePercent, reloads, requests)
})

// reasonOf classifies why the policy did not decide.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return resultTimeout
	case errors.Is(err, live.ErrUnschedulable):
		return resultUnschedulable
	}
	return resultError
}
