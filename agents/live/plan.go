package live

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/agents/search"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// planner searches for nodes. Simulations begin in a copy of the cluster, with pods to come that resemble the present
// ones, and place them where the pod to place may run, too.
type planner struct {
	spec     *envs.Spec
	config   search.Config
	task     envs.Continuer
	policies []envs.Policy    // of the advisers and the base policy, which is last; none of a posterior, whose base is a model
	searcher *search.Searcher // nil before the first decision
}

// parseSearch reads the settings of a search.
func parseSearch(text string) (*search.Config, error) {
	c, err := search.Parse(text)
	if err == nil && c.Clairvoyant {
		err = fmt.Errorf("live: search %s is clairvoyant, and a running cluster has no known future", text)
	}
	c.Now = time.Now
	return &c, err
}

func newPlanner(spec *envs.Spec, task envs.Live, c search.Config) (*planner, error) {
	t, ok := task.(envs.Continuer)
	if !ok {
		return nil, fmt.Errorf("live: a search in %s: %w: its decisions in a running cluster cannot be played on", spec.ID, envs.ErrCannotResample)
	}
	if err := t.CanContinue(); err != nil {
		return nil, fmt.Errorf("live: a search in %s: %w", spec.ID, err)
	}
	p := &planner{spec: spec, config: c, task: t}
	var names []string
	if c.Advisers != "" {
		names = strings.Split(c.Advisers, "+")
	}
	if c.Method != search.MethodPosterior {
		names = append(names, c.Base)
	}
	for _, name := range names {
		b, err := spec.Baseline(name)
		if err != nil {
			return nil, fmt.Errorf("live: a search in a running cluster follows baselines: %w", err)
		}
		policy, err := b.New(t)
		if err != nil {
			return nil, err
		}
		p.policies = append(p.policies, policy)
	}
	return p, nil
}

// plan returns the node that the search chooses.
func (s *instance) plan(ctx context.Context, state *cluster.State) (int32, error) {
	p := s.search
	r := search.Root{Env: envs.Continue(p.spec, p.task, state), Obs: s.batch.Obs, Mask: s.batch.Mask}
	p.task.Observe(state, s.batch.Obs, s.batch.Mask)
	for _, policy := range p.policies { // the base policy's plan stays
		if err := policy(ctx, state, !s.asked, s.action); err != nil {
			return 0, err
		}
		r.Base = int(s.action[0])
		r.Advised = append(r.Advised, r.Base)
	}
	s.asked = true
	r.Advised = r.Advised[:max(0, len(p.policies)-1)]
	if p.searcher == nil {
		var err error
		if p.searcher, err = search.NewSearcher(r.Env, p.spec, p.config); err != nil {
			return 0, err
		}
	}
	chosen, err := p.searcher.Choose(ctx, r)
	if err != nil {
		return 0, err
	}
	if t, ok := p.task.(envs.Planner); ok && chosen != r.Base {
		t.TakePlan() // discard the devices of the base policy's node
	}
	return s.take(int32(chosen))
}
