package scheduler

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ShadowRecord is a line of the shadow mode: a pod that another scheduler bound, and what we would
// have done in that moment.
type ShadowRecord struct {
	Time     time.Time `json:"time"`
	Pod      string    `json:"pod"`   // namespace/name
	Bound    string    `json:"bound"` // node that the other chose
	Chosen   string    `json:"chosen"`
	Agree    bool      `json:"agree"`
	Policy   string    `json:"policy"`
	Fallback string    `json:"fallback,omitempty"` // why Chosen is not the policy's
	Err      string    `json:"err,omitempty"`      // why there is none
	Fitting  int       `json:"fitting"`            // nodes on which the pod fitted
	Seconds  float64   `json:"seconds"`            // that the decision took
}

// shadow records the decision of another scheduler, if p shows one. It is called before the cache
// has p, by the one goroutine that tells of pods: in the order of events, so that the cache is what
// the other scheduler acted on.
func (s *Scheduler) shadow(p *corev1.Pod) {
	before, waits := s.cache.pod(p.UID)
	if before == nil || !waits || p.Spec.NodeName == "" || p.Spec.SchedulerName != s.cfg.Name {
		return
	}
	ctx := context.Background() // the budget bounds it
	begin := time.Now()
	r := ShadowRecord{Time: begin, Pod: p.Namespace + "/" + p.Name, Bound: p.Spec.NodeName, Policy: s.cfg.Policy.Name}
	m, err := s.cache.moment(before, s.replicas(ctx, before), nil)
	switch {
	case err != nil:
		r.Err = err.Error()
	case m.fitting() == 0:
		r.Err = m.reasons()
	default:
		v := s.decide(ctx, m)
		r.Chosen, r.Fallback, r.Fitting = m.nodes[v.node].Name, v.fallback, m.fitting()
		r.Agree = r.Chosen == r.Bound
	}
	r.Seconds = time.Since(begin).Seconds()
	s.metrics.shadow.WithLabelValues(strconv.FormatBool(r.Agree)).Inc()
	if err := json.NewEncoder(s.cfg.Shadow).Encode(r); err != nil {
		s.log.Error("shadow record", "pod", r.Pod, "err", err)
	}
}
