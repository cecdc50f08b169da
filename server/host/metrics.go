package host

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/kubernasium/kubernasium/server/session"
)

// newMetrics registers the metrics of /metrics. A scrape reads the counts of the sessions.
func (s *Server) newMetrics() *prometheus.Registry {
	shared := s.sessions.Shared
	reg := prometheus.NewRegistry()
	gauge := func(name, help string, f func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "kubernasium", Name: name, Help: help}, f))
	}
	counter := func(name, help string, f func() float64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "kubernasium", Name: name, Help: help}, f))
	}
	gauge("sessions", "Open sessions.", func() float64 { return float64(shared.Sessions.Load()) })
	gauge("envs", "Open environments.", func() float64 { return float64(shared.Envs.Load()) })
	gauge("snapshot_envs", "Environments in snapshots.", func() float64 { return float64(shared.Snaps.Load()) })
	gauge("requests_waiting", "Requests that wait for an earlier one of their session, or for a processor.", func() float64 { return float64(s.waiting()) })
	counter("requests_total", "Requests that arrived.", func() float64 { return float64(shared.Frames.Load()) })
	counter("env_steps_total", "Steps of environments.", func() float64 { return float64(shared.Steps.Load()) })
	took := prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "kubernasium", Name: "step_seconds", Help: "Time that a step of a vector took.",
		Buckets: prometheus.ExponentialBuckets(1e-6, 4, 13), // 1 µs to 17 s
	})
	s.sessions.OnStep = func(d time.Duration) { took.Observe(d.Seconds()) }
	reg.MustRegister(took, errorCounts{shared}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// errorCounts collects the rejected requests by code.
type errorCounts struct{ shared *session.Shared }

var errorsDesc = prometheus.NewDesc("kubernasium_errors_total", "Requests that were refused, by code.", []string{"code"}, nil)

// Describe implements [prometheus.Collector].
func (errorCounts) Describe(ch chan<- *prometheus.Desc) { ch <- errorsDesc }

// Collect implements [prometheus.Collector].
func (e errorCounts) Collect(ch chan<- prometheus.Metric) {
	for code, n := range e.shared.Errors() {
		ch <- prometheus.MustNewConstMetric(errorsDesc, prometheus.CounterValue, float64(n), string(code))
	}
}
