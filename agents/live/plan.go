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
	base     envs.Policy
	advisers []envs.Policy
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
	names := []string{c.Base}
	if c.Advisers != "" {
		names = append(names, strings.Split(c.Advisers, "+")...)
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
		p.advisers = append(p.advisers, policy)
	}
	p.base, p.advisers = p.advisers[0], p.advisers[1:]
	return p, nil
}

// plan returns the node that the search chooses.
func (s *instance) plan(ctx context.Context, state *cluster.State) (int32, error) {
	p := s.search
	r := search.Root{Env: envs.Continue(p.spec, p.task, state), Obs: s.batch.Obs, Mask: s.batch.Mask}
	p.task.Observe(state, s.batch.Obs, s.batch.Mask)
	for _, adviser := range append(p.advisers, p.base) { // the base is last, so that its plan stays
		if err := adviser(ctx, state, !s.asked, s.action); err != nil {
			return 0, err
		}
		r.Base = int(s.action[0])
		r.Advised = append(r.Advised, r.Base)
	}
	s.asked = true
	r.Advised = r.Advised[:len(p.advisers)]
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
