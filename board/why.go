package board

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// Explanation explains a decision: properties of each node, and the choice of each policy.
type Explanation struct {
	Frame   *Frame     `json:"frame"` // before the decision
	Taken   []float32  `json:"taken"` // the action taken; null at the end
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"` // by node
	Choices []Choice   `json:"choices"`
	Allowed []bool     `json:"allowed"` // by action; empty without a mask
	Pods    []PodInfo  `json:"pods"`    // of the requested node, the latest first
}

// PodInfo is a present or past pod of a node.
type PodInfo struct {
	Name     string   `json:"name"`
	Phase    string   `json:"phase"`
	MilliCPU int64    `json:"cpu_m"`
	Memory   int64    `json:"memory_bytes"`
	GPUs     float64  `json:"gpus"`
	Started  float64  `json:"started_s"`
	Ended    *float64 `json:"ended_s"` // null while it runs
}

// Choice holds the action that a policy would take, and its scores.
type Choice struct {
	Policy string    `json:"policy"`
	Action []float32 `json:"action"`
	Scores *Scores   `json:"scores,omitempty"`
	Error  string    `json:"error,omitempty"` // why there is no action
}

// why answers GET /api/episodes/{id}/why?step=K&node=I&policies=A|B.
func (s *Server) why(r *http.Request) (any, error) {
	ep, err := s.episodes.find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	step, err := number(r, "step", len(ep.moves))
	if err != nil {
		return nil, fmt.Errorf("step: %w", err)
	}
	if err := ep.seek(r.Context(), step); err != nil {
		return nil, err
	}
	node, err := number(r, "node", -1)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	e := &Explanation{Columns: []string{}, Rows: [][]string{}, Choices: []Choice{}, Allowed: append([]bool{}, ep.seen.Mask...)}
	e.Pods = podsOf(ep.view.Env(0).State(), node)
	e.Frame = ep.frame(ep.view, ep.seen, step)
	if step < len(ep.moves) {
		e.Taken = ep.moves[step].action
	}
	if task, ok := ep.view.Env(0).Task().(envs.Explainer); ok {
		var rows [][]string // nil at an episode's end
		e.Columns, rows = task.Explain(ep.view.Env(0).State())
		e.Rows = append(e.Rows, rows...)
	}
	if policies := r.URL.Query().Get("policies"); policies != "" && !ep.seen.Done(0) {
		for _, name := range strings.Split(policies, "|") {
			e.Choices = append(e.Choices, s.choice(r.Context(), ep, name))
		}
	}
	return e, nil
}

// podsOf returns the present and past pods of a node, the latest first, at most maxPods.
func podsOf(s *cluster.State, node int) []PodInfo {
	pods := []PodInfo{}
	for i := len(s.Pods) - 1; i >= 0 && len(pods) < maxPods; i-- {
		p := &s.Pods[i]
		if node < 0 || int(p.Node) != node || p.Phase == cluster.Pending {
			continue
		}
		info := PodInfo{
			Name: s.PodName(int32(i)), Phase: p.Phase.String(), MilliCPU: p.Requests.MilliCPU, Memory: p.Requests.MemoryBytes,
			GPUs: float64(p.GPUs) * float64(p.MilliGPU) / float64(cluster.MaxMilliGPU), Started: p.Started.Seconds(),
		}
		if p.Phase != cluster.Running {
			info.Ended = new(p.Ended.Seconds())
		}
		pods = append(pods, info)
	}
	return pods
}

// maxPods bounds the pods shown for a node.
const maxPods = 200

// Scores rate the actions of one observation.
type Scores struct {
	Kind    string     `json:"kind"`    // "probability" or "action value"
	Actions []*float64 `json:"actions"` // by action; null for one that is masked out
	Value   float64    `json:"value"`   // of the observation
	Entropy *float64   `json:"entropy"` // of the probabilities in nats; null for action values
}

// choice returns a policy's choice at the viewed step. It opens the policy anew, so that a recurrent policy answers as
// if the episode began here.
func (s *Server) choice(ctx context.Context, ep *episode, name string) Choice {
	c := Choice{Policy: name}
	p, free, err := s.open(ctx, ep.view, name, ep.seed)
	if err != nil {
		return Choice{Policy: name, Error: err.Error()}
	}
	defer free()
	_, act := ep.view.Spaces()
	c.Action = make([]float32, act.Size())
	if err := p.Act(ep.seen, c.Action); err != nil {
		return Choice{Policy: name, Error: err.Error()}
	}
	if d, ok := act.(space.Discrete); ok {
		c.Scores = ScoresOf(p, ep.seen, d.N)
	}
	return c
}

// ScoresOf returns the scores of n actions at the first row of b, or nil if p has no scores, like baselines. A recurrent
// policy answers as if the episode began at b, whatever it has seen before.
func ScoresOf(p agents.Policy, b *envs.Batch, n int) *Scores {
	first := *b
	first.EpisodeLength = make([]int64, len(b.EpisodeLength))
	b = &first
	scorer, ok := p.(agents.Scorer)
	raw := make([]float32, n)
	if !ok || scorer.Scores(b, raw) != nil {
		return nil
	}
	s := &Scores{Kind: "action value", Actions: make([]*float64, n), Value: math.Inf(-1)}
	for i, v := range raw {
		if len(b.Mask) == 0 || b.Mask[i] {
			score := float64(v)
			s.Actions[i], s.Value = &score, max(s.Value, score)
		}
	}
	value := make([]float32, 1)
	if v, ok := p.(agents.Valuer); ok && v.Values(b, value) == nil {
		s.softmax()
		s.Value = float64(value[0])
	}
	return s
}

// ScoresOfNodes returns the scores of a policy for the nodes of a running cluster. With a critic, ratings are logits,
// and value is the critic's. ratings are NaN for nodes that the pod does not fit.
func ScoresOfNodes(ratings []float64, value float64, critic bool) *Scores {
	s := &Scores{Kind: "score", Actions: finite(ratings), Value: math.Inf(-1)}
	for _, v := range s.Actions {
		if v != nil {
			s.Value = max(s.Value, *v)
		}
	}
	if math.IsInf(s.Value, 0) {
		return nil
	}
	if critic {
		s.softmax()
		s.Value = value
	}
	return s
}

// softmax turns logits, of which Value is the greatest, into probabilities.
func (s *Scores) softmax() {
	s.Kind, s.Entropy = "probability", new(float64)
	sum := 0.0
	for _, p := range s.Actions {
		if p != nil {
			*p = math.Exp(*p - s.Value)
			sum += *p
		}
	}
	for _, p := range s.Actions {
		if p == nil {
			continue
		}
		if *p /= sum; *p > 0 {
			*s.Entropy -= *p * math.Log(*p)
		}
	}
}

// EnvironmentInfo describes an environment to the page.
type EnvironmentInfo struct {
	ID        string        `json:"id"`
	Doc       string        `json:"doc"`
	Options   []envs.Option `json:"options"`
	HeldOut   any           `json:"held_out"` // options of held-out instances
	Baselines []Named       `json:"baselines"`
	Models    []string      `json:"models"` // paths
	Nodes     bool          `json:"nodes"`  // actions choose nodes
}

// Named is a name with its description.
type Named struct {
	Name string `json:"name"`
	Doc  string `json:"doc"`
}

// environments lists the environments that can run in this process, with their policies.
func (s *Server) environments() []EnvironmentInfo {
	list := []EnvironmentInfo{}
	if s.cfg.Open == nil {
		return list
	}
	byEnv := s.models()
	for _, spec := range envs.Specs() {
		if spec.Nondeterministic {
			continue // such environments cannot be replayed
		}
		e := EnvironmentInfo{ID: spec.ID, Doc: spec.Doc, Options: envs.DescribeOptions(spec.Options), HeldOut: spec.HeldOut, Baselines: []Named{}, Models: byEnv[spec.ID]}
		for _, b := range spec.Baselines {
			e.Baselines = append(e.Baselines, Named{b.Name, b.Doc})
		}
		if v, err := envs.NewVec(spec, 1, envs.VecOptions{}); err == nil {
			_, act := v.Spaces()
			_, e.Nodes = act.(space.Discrete)
			_, explains := v.Env(0).Task().(envs.Explainer)
			e.Nodes = e.Nodes && explains
			_ = v.Close() // an unused environment
		}
		list = append(list, e)
	}
	return list
}

// models finds the best models of trainings and the models of the repository, by environment.
func (s *Server) models() map[string][]string {
	found := map[string][]string{}
	for i, folder := range append([]string{s.cfg.Logs}, s.cfg.Models...) {
		if folder == "" {
			continue
		}
		_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			name := filepath.Base(path)
			if err != nil || d.IsDir() || filepath.Ext(name) != models.Ext || i == 0 && name != "best_model.safetensors" {
				return nil // unreadable files cannot be chosen
			}
			if f, err := models.ReadFile(path); err == nil {
				found[f.Meta.Env] = append(found[f.Meta.Env], path)
			}
			return nil
		})
	}
	return found
}
