package scheduler

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
)

// An Agent chooses in the environments of package envs: agents.Policy. It may also implement
// [Scorer] and [io.Closer].
type Agent interface {
	// Act writes the action for the one row of b.
	Act(b *envs.Batch, actions []float32) error
}

// Scorer rates every action, as agents.Scorer says.
type Scorer interface {
	Scores(b *envs.Batch, scores []float32) error
}

// Policy says who chooses nodes.
type Policy struct {
	Name    string // in logs and metrics
	Env     *envs.Spec
	Options map[string]any // of the environment

	// Agent returns the agent for an environment with these spaces, whose actions are the nodes;
	// nil takes the baseline.
	Agent    func(obs, act space.Space) (Agent, error)
	Baseline string
}

// choice is a node for the pod, its devices there, and a rating of every node on which the pod
// fits; node is -1 where it fits none.
type choice struct {
	node    int32
	devices uint64
	scores  []float64
}

// seat is a policy's place in a cluster of so many nodes.
type seat struct {
	task   envs.Live
	agent  Agent
	rule   envs.Policy
	batch  envs.Batch
	action []float32
	scores []float32
}

// open returns a seat. The environment, its options and the agent must fit each other.
func (p *Policy) open(nodes int) (*seat, error) {
	if p.Env.Live == nil {
		return nil, fmt.Errorf("scheduler: %s places no pods in running clusters", p.Env.ID)
	}
	task, err := p.Env.Live(p.Options, nodes)
	if err != nil {
		return nil, err
	}
	s := &seat{task: task, action: make([]float32, 1)}
	obs, act := task.Spaces()
	s.batch = envs.Batch{
		Obs: make([]float32, obs.Size()), Mask: make([]bool, space.MaskSize(act)), Reward: make([]float64, 1),
		Terminated: make([]bool, 1), Truncated: make([]bool, 1), EpisodeLength: make([]int64, 1),
	}
	s.scores = make([]float32, len(s.batch.Mask))
	if p.Agent != nil {
		s.agent, err = p.Agent(obs, act)
		return s, err
	}
	b, err := p.Env.Baseline(p.Baseline)
	if err != nil {
		return nil, err
	}
	if b.Oracle {
		return nil, fmt.Errorf("scheduler: baseline %s knows what no scheduler can", p.Baseline)
	}
	s.rule, err = b.New(task)
	return s, err
}

func (s *seat) close() error {
	if c, ok := s.agent.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// choose lets the policy choose among the nodes on which the pod fits, of which there is one at
// least.
func (s *seat) choose(ctx context.Context, m *moment) (choice, error) {
	if err := s.task.Attend(m.state, m.decision); err != nil {
		return choice{}, err
	}
	c := choice{scores: make([]float64, len(m.nodes))}
	if s.rule != nil {
		if err := s.rule(ctx, m.state, true, s.action); err != nil {
			return choice{}, err
		}
		c.node = int32(s.action[0])
	} else {
		s.task.Observe(m.state, s.batch.Obs, s.batch.Mask)
		if err := s.rate(&c); err != nil {
			return choice{}, err
		}
	}
	if int(c.node) >= len(m.mask) || !m.mask[c.node] {
		return choice{}, fmt.Errorf("scheduler: the policy chooses node %d of %d, on which the pod does not fit", c.node, len(m.nodes))
	}
	if s.rule != nil {
		c.scores[c.node] = 1
	}
	c.devices = s.task.Devices(c.node)
	return c, nil
}

// rate asks the agent. One that is no Scorer prefers its choice to all others.
func (s *seat) rate(c *choice) error {
	scorer, ok := s.agent.(Scorer)
	if !ok {
		if err := s.agent.Act(&s.batch, s.action); err != nil {
			return err
		}
		c.node = int32(s.action[0])
		c.scores[c.node] = 1
		return nil
	}
	if err := scorer.Scores(&s.batch, s.scores); err != nil {
		return err
	}
	c.node = -1
	for i := range c.scores {
		v := float64(s.scores[i])
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("scheduler: the policy's score of node %d is %v", i, v)
		}
		c.scores[i] = v
		if s.batch.Mask[i] && (c.node < 0 || v > c.scores[c.node]) {
			c.node = int32(i)
		}
	}
	return nil
}
