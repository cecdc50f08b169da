package scheduler

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Results of attempts to place a pod.
const (
	resultScheduled     = "scheduled"
	resultUnschedulable = "unschedulable" // it fits no node, or asks for what is not supported
	resultConflict      = "conflict"      // it, or its node, was gone or bound meanwhile
	resultError         = "error"
)

// metrics are what /metrics shows.
type metrics struct {
	registry  *prometheus.Registry
	attempts  *prometheus.CounterVec // by result
	duration  *prometheus.HistogramVec
	policy    prometheus.Histogram
	fallbacks *prometheus.CounterVec // by reason
	requests  *prometheus.CounterVec // by path and status
	shadow    *prometheus.CounterVec // by agreement
	leader    prometheus.Gauge
	victims   prometheus.Counter
}

func newMetrics(queued func() float64) *metrics {
	const namespace, subsystem = "kubernasium", "scheduler"
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, []string{label})
	}
	buckets := prometheus.ExponentialBuckets(1e-4, 2, 16) // 0.1 ms to 3 s
	m := &metrics{
		registry: prometheus.NewRegistry(),
		attempts: counter("schedule_attempts_total", "Attempts to place a pod, by result.", "result"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: "scheduling_attempt_duration_seconds",
			Help: "Time from taking a pod from the queue until it is bound or not, by result.", Buckets: buckets}, []string{"result"}),
		policy: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: "policy_duration_seconds",
			Help: "Time that the policy took to choose, where it kept to its budget.", Buckets: buckets}),
		fallbacks: counter("fallbacks_total", "Decisions by kube-scheduler's scores instead of the policy, by reason: timeout or error.", "reason"),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: "requests_total",
			Help: "Requests to /filter, /prioritize and /score, by status."}, []string{"path", "code"}),
		shadow: counter("shadow_decisions_total", "Placements by the other scheduler in shadow mode: whether we would have done the same.", "agree"),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: "leader", Help: "1 while this instance binds pods."}),
	}
	m.victims = prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: "preemption_victims_total", Help: "Pods that were evicted for one of higher priority."})
	pending := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: "pending_pods", Help: "Pods that wait for a node."}, queued)
	m.registry.MustRegister(m.attempts, m.duration, m.policy, m.fallbacks, m.requests, m.shadow, m.leader, m.victims, pending,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}
