package run

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/envs"
)

// WarmStart configures a heuristic that acts in the first part of a training.
type WarmStart struct {
	Baseline string // empty: none
	Steps    int    // environment steps
}

// Check returns an error for arguments that contradict each other, the algorithm or the environment.
func (c WarmStart) Check(spec *envs.Spec, algo algorithms.Algorithm, urls []string) error {
	switch {
	case c.Baseline == "":
		return nil
	case !algo.OffPolicy:
		return fmt.Errorf("--warm-start with %s, which learns only from its own actions: want --algo %s, or --imitate %s", algo.Name, OffPolicyNames(), c.Baseline)
	case len(urls) > 0:
		return errors.New("a baseline acts in this process, from the true state: --warm-start goes without --url")
	case c.Baseline == envs.RandomName:
		return fmt.Errorf("--warm-start %s: %s acts at random anyway, for learning_starts steps", c.Baseline, algo.Name)
	case c.Steps < 1:
		return fmt.Errorf("--warm-start-steps %d, want at least 1", c.Steps)
	}
	_, err := spec.Baseline(c.Baseline)
	return err
}

// OffPolicyNames lists the algorithms that learn from other policies' actions.
func OffPolicyNames() string {
	return strings.Join(algorithms.Names(func(a algorithms.Algorithm) bool { return a.OffPolicy }), " or ")
}

// openWarmStart opens the heuristic. Its actions depend only on the state of the environments, so that a
// training resumes exactly while it acts.
func (r *Run) openWarmStart() error {
	if r.WarmStart.Baseline == "" {
		return nil
	}
	v, ok := r.v.(*envs.Vec)
	if !ok {
		return fmt.Errorf("--warm-start in environments of type %T, want those of this process", r.v)
	}
	var err error
	r.heuristic, err = baseline.New(v, r.WarmStart.Baseline, r.Seed)
	return err
}

// warming reports whether the heuristic acts next.
func (r *Run) warming() bool {
	return r.heuristic != nil && r.Learner.NumTimesteps() < r.WarmStart.Steps
}

// act lets the heuristic or the learner act. The learner records the heuristic's actions as its own.
func (r *Run) act(b *envs.Batch, actions []float32) error {
	if !r.warming() {
		return r.Learner.Act(b, actions)
	}
	if err := r.heuristic.Act(b, actions); err != nil {
		return err
	}
	l, ok := r.Learner.Learner.(algorithms.OffPolicyLearner)
	if !ok {
		return fmt.Errorf("--warm-start with a learner of type %T, want an OffPolicyLearner", r.Learner.Learner)
	}
	l.Take(b, actions)
	return nil
}

// checkWarmStart returns an error for an action of the heuristic that was masked out, because the learner could
// never take it.
func (r *Run) checkWarmStart(actions []float32, next *envs.Batch) error {
	if !r.warming() {
		return nil
	}
	for i, invalid := range next.Invalid {
		if invalid {
			return fmt.Errorf("warm start: the action %v of %s in environment %d is masked out", actions[i], r.WarmStart.Baseline, i)
		}
	}
	return nil
}
