// Package live lets a trained model or a baseline place the pods of a running cluster. Its caller
// describes the cluster as a [cluster.State]; an [envs.Live] task observes it with the code of its
// environment's episodes. The package uses no API server. It imports envs/all, which registers the
// environments.
package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/search"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// DefaultEnv is the default of Args.Env.
const DefaultEnv = "k8s/PodBalance-v0"

// ErrUnschedulable is returned by [Policy.Choose] for a pod that fits no node.
var ErrUnschedulable = errors.New("live: the pod fits no node")

// Args select a policy: a model or a baseline.
type Args struct {
	Model    string         `json:"model,omitempty"`    // file of a trained model
	Baseline string         `json:"baseline,omitempty"` // name of a baseline of Env, or a search as package search parses it
	Env      string         `json:"env,omitempty"`      // environment of the baseline; default DefaultEnv. A model names its own
	Options  map[string]any `json:"options,omitempty"`  // of the environment; they override those of the model's training
}

// Choice is a node for a pod.
type Choice struct {
	Node    int32
	Devices uint64 // bit i: the pod takes device i of the node

	// Scores rates each node: a model's logits or action values, or 1 for a baseline's choice and 0
	// for other nodes; NaN where the pod does not fit. It is valid until the next Choose.
	Scores []float64
}

// Policy chooses nodes. [Open] makes one. It is not safe for concurrent use.
type Policy struct {
	name     string
	spec     *envs.Spec
	options  map[string]any
	file     *models.File // nil for a baseline
	baseline *envs.Baseline
	search   *search.Config // nil if the policy does not search
	instance *instance
}

// Open opens the policy for clusters of the given number of nodes. Choose reopens it when that
// number changes. An error wraps that of the file, [models.ErrMismatch], [envs.ErrInvalidOption] or
// [envs.ErrUnknownBaseline].
func Open(args Args, nodes int) (*Policy, error) {
	p := &Policy{name: args.Baseline}
	switch {
	case (args.Model == "") == (args.Baseline == ""):
		return nil, fmt.Errorf("live: model %q and baseline %q, want one of them", args.Model, args.Baseline)
	case args.Model != "":
		f, err := models.ReadFile(args.Model)
		if err != nil {
			return nil, err
		}
		p.name, p.file = f.Meta.Algo, &f
	}
	if err := p.findEnv(args); err != nil {
		return nil, err
	}
	var err error
	if p.instance, err = p.open(nodes); err != nil && p.file != nil {
		err = fmt.Errorf("%s: %w", args.Model, err)
	}
	return p, err
}

// findEnv sets the environment and its options.
func (p *Policy) findEnv(args Args) error {
	id, trained := cmp.Or(args.Env, DefaultEnv), map[string]any{}
	if p.file != nil {
		id = p.file.Meta.Env
		if kwargs := p.file.Meta.EnvKwargs; len(kwargs) > 0 {
			if err := json.Unmarshal(kwargs, &trained); err != nil {
				return fmt.Errorf("%s: options of the environment: %w", args.Model, err)
			}
		}
	}
	var err error
	if p.spec, err = envs.Lookup(OriginalID(id)); err != nil {
		return err
	}
	if p.spec.Live == nil {
		return fmt.Errorf("live: %s places no pods of running clusters", p.spec.ID)
	}
	p.options = map[string]any{}
	maps.Copy(p.options, trained) // nil if the file has null
	maps.Copy(p.options, args.Options)
	if p.spec.ID != id { // a twin's options also locate its API server
		own := map[string]any{}
		for _, o := range envs.DescribeOptions(p.spec.Options) {
			if v, ok := p.options[o.Name]; ok {
				own[o.Name] = v
			}
		}
		p.options = own
	}
	switch {
	case p.file != nil:
	case search.IsSearch(args.Baseline):
		p.search, err = parseSearch(args.Baseline)
	default:
		if p.baseline, err = p.spec.Baseline(args.Baseline); err == nil && p.baseline.Clairvoyant {
			err = fmt.Errorf("live: baseline %s of %s knows the future, want one that does not", args.Baseline, p.spec.ID)
		}
	}
	return err
}

// Name returns the model's algorithm or the baseline's name.
func (p *Policy) Name() string { return p.name }

// Env returns the environment that defines the policy's observations and rules.
func (p *Policy) Env() *envs.Spec { return p.spec }

// Options returns the options of the environment.
func (p *Policy) Options() map[string]any { return maps.Clone(p.options) }

// Choose lets the policy place the pod of d in s. No other goroutine may change s meanwhile. Cordoned nodes of s are
// excluded. Choose returns [ErrUnschedulable] if the pod fits no node, and an error for a decision that the environment
// cannot take and for scores that are not finite.
func (p *Policy) Choose(ctx context.Context, s *cluster.State, d envs.Decision) (Choice, error) {
	if len(s.Nodes) == 0 {
		return Choice{}, ErrUnschedulable
	}
	if n := len(s.Nodes); p.instance == nil || p.instance.nodes != n {
		fresh, err := p.open(n)
		if err != nil {
			return Choice{}, err
		}
		if err := p.Close(); err != nil {
			return Choice{}, errors.Join(err, fresh.close())
		}
		p.instance = fresh
	}
	return p.instance.choose(ctx, s, d)
}

// Close frees the network. A later Choose opens it again.
func (p *Policy) Close() error {
	s := p.instance
	p.instance = nil
	return s.close()
}

// instance is the policy for a fixed number of nodes.
type instance struct {
	nodes    int
	task     envs.Live
	baseline envs.Policy   // or nil
	search   *planner      // or nil
	asked    bool          // the baseline has decided before; its first call starts an episode
	policy   agents.Scorer // of a model, or nil
	net      *fused.Network
	batch    envs.Batch
	action   []float32
	logits   []float32
	scores   []float64
}

func (p *Policy) open(nodes int) (*instance, error) {
	if nodes < 1 {
		return nil, fmt.Errorf("live: %d nodes, want 1 at least", nodes)
	}
	task, err := p.spec.Live(p.options, nodes)
	if err != nil {
		return nil, err
	}
	obs, act := task.Spaces()
	s := &instance{nodes: nodes, task: task, action: make([]float32, 1), scores: make([]float64, nodes)}
	s.batch = envs.Batch{
		Obs: make([]float32, obs.Size()), Mask: make([]bool, space.MaskSize(act)), Reward: make([]float64, 1),
		Terminated: make([]bool, 1), Truncated: make([]bool, 1), EpisodeLength: make([]int64, 1),
	}
	if len(s.batch.Mask) != nodes {
		return nil, fmt.Errorf("live: %s has %d actions in a cluster of %d nodes, want one for each node", p.spec.ID, len(s.batch.Mask), nodes)
	}
	s.logits = make([]float32, nodes)
	switch {
	case p.search != nil:
		s.search, err = newPlanner(p.spec, task, *p.search)
		return s, err
	case p.baseline != nil:
		s.baseline, err = p.baseline.New(task)
		return s, err
	}
	s.policy, s.net, err = readPolicy(*p.file, obs, act)
	return s, err
}

func (s *instance) close() error {
	if s == nil || s.net == nil {
		return nil
	}
	return s.net.Close()
}

// choose returns the policy's choice.
func (s *instance) choose(ctx context.Context, state *cluster.State, d envs.Decision) (Choice, error) {
	if err := s.task.Attend(state, d); err != nil {
		return Choice{}, err
	}
	state.FitMask(d.Pod, s.batch.Mask)
	fitting := false
	for i, fits := range s.batch.Mask {
		s.scores[i] = math.NaN()
		if fits {
			s.scores[i], fitting = 0, true
		}
	}
	if !fitting {
		return Choice{}, ErrUnschedulable
	}
	c := Choice{Scores: s.scores}
	var err error
	switch {
	case s.search != nil:
		c.Node, err = s.plan(ctx, state)
	case s.baseline != nil:
		c.Node, err = s.follow(ctx, state)
	default:
		c.Node, err = s.rate(state)
	}
	if err != nil {
		return Choice{}, err
	}
	c.Devices = s.task.Devices(c.Node)
	return c, nil
}

// follow returns the node that the baseline chooses.
func (s *instance) follow(ctx context.Context, state *cluster.State) (int32, error) {
	if err := s.baseline(ctx, state, !s.asked, s.action); err != nil {
		return 0, err
	}
	s.asked = true
	return s.take(int32(s.action[0]))
}

// take marks the node that a baseline or a search chooses.
func (s *instance) take(node int32) (int32, error) {
	if uint(node) >= uint(s.nodes) || math.IsNaN(s.scores[node]) {
		return 0, fmt.Errorf("live: the baseline chooses node %d of %d, want one that the pod fits", node, s.nodes)
	}
	s.scores[node] = 1
	return node, nil
}

// rate returns the node with the highest score, the first of equals.
func (s *instance) rate(state *cluster.State) (int32, error) {
	s.task.Observe(state, s.batch.Obs, s.batch.Mask)
	if err := s.policy.Scores(&s.batch, s.logits); err != nil {
		return 0, err
	}
	best := int32(-1)
	for i, logit := range s.logits {
		if math.IsNaN(s.scores[i]) || !s.batch.Mask[i] {
			s.scores[i] = math.NaN()
			continue
		}
		v := float64(logit)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, fmt.Errorf("live: the model's score of node %d is %v, want a finite one", i, v)
		}
		s.scores[i] = v
		if best < 0 || v > s.scores[best] {
			best = int32(i)
		}
	}
	if best < 0 {
		return 0, ErrUnschedulable
	}
	return best, nil
}
