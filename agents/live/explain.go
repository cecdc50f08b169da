package live

import (
	"context"
	"errors"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Explain returns the properties of each node that matter for the decision on d's pod, as a table with a row for each
// node. The last column is the reason why the node is masked out. Explain makes no decision. There are no columns if
// the task is no [envs.Explainer].
func (p *Policy) Explain(ctx context.Context, s *cluster.State, d envs.Decision) (columns []string, rows [][]string, err error) {
	if _, err := p.Choose(ctx, s, d); err != nil && !errors.Is(err, ErrUnschedulable) { // Choose opens the policy for these nodes
		return nil, nil, err
	}
	if p.instance == nil {
		return nil, nil, ErrUnschedulable
	}
	task, ok := p.instance.task.(envs.Explainer)
	if !ok {
		return nil, nil, nil
	}
	columns, rows = task.Explain(s)
	return columns, rows, nil
}

// Value returns the critic's value of the observation of the last Choose. ok is false if the policy has no critic.
func (p *Policy) Value() (value float64, ok bool) {
	if p.instance == nil {
		return 0, false
	}
	critic, ok := p.instance.policy.(agents.Valuer)
	if !ok {
		return 0, false
	}
	v := make([]float32, 1)
	if critic.Values(&p.instance.batch, v) != nil {
		return 0, false
	}
	return float64(v[0]), true
}
