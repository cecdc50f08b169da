package search

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/kubernasium/kubernasium/agents/trained"
	"github.com/kubernasium/kubernasium/envs"
)

// weigher decides by MethodPosterior, for one goroutine.
type weigher struct {
	s       *Searcher
	model   *trained.Policy
	scores  []float32
	actions []int32
}

// choose implements MethodPosterior. A model's gain of an action is an estimate with an error of its own, which counts as the
// mean of Trust futures does: the weighted mean is the mean of the posterior if both errors are normal.
func (w *weigher) choose(r Root) (int, error) {
	w.scores = append(w.scores[:0], make([]float32, len(r.Mask))...)
	w.model.Begin()
	if err := w.model.Scores(r.Obs, w.scores); err != nil {
		return 0, err
	}
	actions := w.candidates(r.Mask)
	if len(actions) == 1 {
		return int(actions[0]), nil
	}
	gains, err := r.Env.Task().(envs.GainEstimator).EstimateGains(actions, w.s.config.Futures, w.s.seed(r.Step, r.Obs))
	if err != nil {
		return 0, err
	}
	best, most := actions[0], math.Inf(-1)
	for i, a := range actions {
		if v := w.s.config.posterior(float64(w.scores[a]), gains[i]); v > most {
			best, most = a, v
		}
	}
	return int(best), nil
}

// posterior returns the weighted mean of an action's score and its gain in the futures.
func (c *Config) posterior(score, gain float64) float64 {
	m := float64(c.Futures)
	return (c.Trust*score + m*gain) / (c.Trust + m)
}

// candidates returns the permitted actions of the highest scores. Of actions with equal scores, such as nodes in equal
// states, it returns the first.
func (w *weigher) candidates(mask []bool) []int32 {
	w.actions = w.actions[:0]
	for a, ok := range mask {
		if ok {
			w.actions = append(w.actions, int32(a))
		}
	}
	slices.SortStableFunc(w.actions, func(a, b int32) int { return cmp.Compare(w.scores[b], w.scores[a]) })
	w.actions = slices.CompactFunc(w.actions, func(a, b int32) bool { return w.scores[a] == w.scores[b] })
	return w.actions[:min(len(w.actions), w.s.config.Actions)]
}

// addWeighers prepares MethodPosterior for all goroutines.
func (s *Searcher) addWeighers(e *envs.Env, spec *envs.Spec) error {
	if _, ok := e.Task().(envs.GainEstimator); !ok {
		return fmt.Errorf("search: posterior in %s, want an environment that estimates gains, such as k8s/GPUPodScheduling-v2", spec.ID)
	}
	for range runtime.GOMAXPROCS(0) {
		model, err := s.base.model.Clone()
		if err != nil {
			return err
		}
		s.weighers = append(s.weighers, &weigher{s: s, model: model})
	}
	return nil
}
