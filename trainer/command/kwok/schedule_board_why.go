package kwok

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/mirror"
)

// recordDecision records a decision of the scheduler, with the scores of the policy and of the default in the state
// before it.
func (w *liveCluster) recordDecision(ctx context.Context, p *corev1.Pod) {
	w.placed++
	why := &board.PodWhy{Pod: p.Namespace + "/" + p.Name, Node: p.Spec.NodeName, At: time.Now()}
	head := board.Decision{Pod: why.Pod, Node: why.Node, At: why.At}
	if began := time.Now(); began.After(w.rest) {
		namedPolicy := p.DeepCopy()
		namedPolicy.Spec.NodeName = ""
		if err := w.explain(ctx, namedPolicy, why, slices.Sorted(maps.Keys(w.wanted))); err != nil {
			why.Message = err.Error()
		}
		w.rest = time.Now().Add(time.Duration(float64(time.Since(began)) * (1/explainShare - 1)))
		w.summarize(why, &head)
	} else {
		why.Message = "Not explained: the scheduler decides faster than this page explains."
	}
	w.decisions, w.heads = append(w.decisions, why), append(w.heads, head)
	if n := len(w.heads) - shownDecisions; n > 0 {
		w.decisions, w.heads = slices.Delete(w.decisions, 0, n), slices.Delete(w.heads, 0, n)
	}
}

// summarize copies the scores of a decision from its explanation.
func (w *liveCluster) summarize(why *board.PodWhy, head *board.Decision) {
	at := slices.Index(why.Nodes, why.Node)
	for _, c := range why.Choices {
		if c.Error != "" || len(c.Action) == 0 {
			continue
		}
		node := why.Nodes[int(c.Action[0])]
		if c.Policy == w.policyName() {
			head.Policy = node
			if at >= 0 && c.Scores != nil {
				head.PolicyScore = c.Scores.Actions[at]
			}
		}
		if c.Policy == standardScores.Baseline { // may also be the policy
			head.Default = node
			if c.Scores != nil {
				head.Best = c.Scores.Actions[int(c.Action[0])]
				if at >= 0 {
					head.DefaultScore = c.Scores.Actions[at]
				}
			}
		}
	}
	// If the default rates a node as high as its own choice, the two agree: the default chooses randomly among
	// such nodes.
	if head.DefaultScore != nil && head.Best != nil && *head.DefaultScore < *head.Best {
		w.disagreed++
	}
}

// policyName returns the name of the scheduler's policy among the choices.
func (w *liveCluster) policyName() string { return cmp.Or(w.args.Model, w.args.Baseline) }

// explain asks the policies for a pod's placement in the current state. The caller holds w.mu.
func (w *liveCluster) explain(ctx context.Context, p *corev1.Pod, why *board.PodWhy, baselines []string) error {
	if err := w.mirror.Sync(w); err != nil {
		return err
	}
	names, _ := w.mirror.Nodes()
	if len(names) == 0 {
		return errors.New("the scheduler has no nodes")
	}
	refused := map[string]string{}
	q := mirror.Question{Pod: p, Now: time.Now()}
	for _, n := range w.nodes {
		if reason := refusal(p, n); reason != "" {
			refused[n.Name] = reason
		} else {
			q.Open = append(q.Open, n.Name)
		}
	}
	policies, unknown := w.namedPolicies(baselines, len(names))
	_, _, err := w.mirror.Ask(q, func(s *cluster.State, d envs.Decision) (int32, uint64, error) {
		why.Nodes = slices.Clone(names)
		for _, a := range policies {
			why.Choices = append(why.Choices, a.choose(ctx, s, d))
		}
		why.Choices = append(why.Choices, unknown...)
		columns, rows, err := w.standard.Explain(ctx, s, d)
		if err != nil {
			return 0, 0, err
		}
		why.Columns, why.Rows = columns, rows
		for i, row := range rows {
			if reason := refused[names[i]]; reason != "" {
				rows[i] = make([]string, len(columns))
				rows[i][0], rows[i][1], rows[i][len(columns)-1] = row[0], row[1], reason
			}
		}
		for k := range why.Choices {
			if why.Choices[k].Policy != w.args.Model {
				rateByColumn(&why.Choices[k], why)
			}
		}
		return 0, 0, nil
	})
	return err
}

// namedPolicy is a policy with its name on the page.
type namedPolicy struct {
	name   string
	policy *live.Policy
}

// namedPolicies returns the scheduler's policy, kube-scheduler's default and further baselines, each once. unknown
// explains those that cannot be opened.
func (w *liveCluster) namedPolicies(baselines []string, nodes int) (policies []namedPolicy, unknown []board.Choice) {
	policies = append(policies, namedPolicy{w.policyName(), w.policy})
	if w.policyName() != standardScores.Baseline {
		policies = append(policies, namedPolicy{standardScores.Baseline, w.standard})
	}
	for _, name := range baselines {
		if name == w.policyName() || name == standardScores.Baseline {
			continue
		}
		p := w.baselines[name]
		if p == nil {
			var err error
			if p, err = live.Open(live.Args{Baseline: name, Env: w.policy.Env().ID, Options: w.policy.Options()}, max(1, nodes)); err != nil {
				unknown = append(unknown, board.Choice{Policy: name, Error: err.Error()})
				continue
			}
			w.baselines[name] = p
		}
		policies = append(policies, namedPolicy{name, p})
	}
	return policies, unknown
}

// choose asks the policy for its choice and its scores.
func (a namedPolicy) choose(ctx context.Context, s *cluster.State, d envs.Decision) board.Choice {
	c, err := a.policy.Choose(ctx, s, d)
	if err != nil {
		return board.Choice{Policy: a.name, Error: err.Error()}
	}
	value, critic := a.policy.Value()
	return board.Choice{Policy: a.name, Action: []float32{float32(c.Node)}, Scores: board.ScoresOfNodes(c.Scores, value, critic)}
}

// rateByColumn replaces the scores of a heuristic's choice, which are only 1 for its node and 0 for others, by
// the column with its name. A heuristic without a column gets no scores.
func rateByColumn(c *board.Choice, why *board.PodWhy) {
	c.Scores = nil
	at := slices.Index(why.Columns, c.Policy)
	if at < 0 || c.Error != "" {
		return
	}
	s := &board.Scores{Kind: "score", Actions: make([]*float64, len(why.Rows)), Value: math.Inf(-1)}
	for k, row := range why.Rows {
		if v, err := strconv.ParseFloat(row[at], 64); err == nil {
			s.Actions[k], s.Value = &v, max(s.Value, v)
		}
	}
	if !math.IsInf(s.Value, 0) {
		c.Scores = s
	}
}

// refusal returns why a node cannot run a pod regardless of its requests, or "".
func refusal(p *corev1.Pod, n *corev1.Node) string {
	if n.Spec.Unschedulable {
		return "cordoned"
	}
	if t, found := corehelpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, p.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, false); found {
		return "taint " + t.ToString()
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); err != nil || !ok {
		return "node selector or affinity"
	}
	return ""
}

// messageOf returns the scheduler's message why a pod is pending.
func messageOf(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// Why implements [board.Cluster].
func (w *liveCluster) Why(ctx context.Context, pod string, policies []string) (*board.PodWhy, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range policies {
		if slices.ContainsFunc(w.policy.Env().Baselines, func(b envs.Baseline) bool { return b.Name == name && !b.Clairvoyant }) {
			w.wanted[name] = true // also in later decisions
		}
	}
	for _, p := range w.pending {
		if p.Namespace+"/"+p.Name == pod {
			why := &board.PodWhy{Pod: pod, At: time.Now(), Message: messageOf(p), Choices: []board.Choice{}}
			return why, w.explain(ctx, p, why, policies)
		}
	}
	for i := len(w.decisions) - 1; i >= 0; i-- {
		if w.decisions[i].Pod == pod {
			return withAsked(w.decisions[i], policies), nil
		}
	}
	return nil, fmt.Errorf("pod %q neither waits nor is one of the last %d decisions", pod, shownDecisions)
}

// withAsked returns the explanation of a decision with a note on each policy that was not asked at the time of
// the decision.
func withAsked(made *board.PodWhy, policies []string) *board.PodWhy {
	why := *made
	why.Choices = slices.Clone(made.Choices)
	for _, name := range policies {
		if !slices.ContainsFunc(why.Choices, func(c board.Choice) bool { return c.Policy == name }) {
			why.Choices = append(why.Choices, board.Choice{Policy: name, Error: "not asked when this was decided; it is from now on"})
		}
	}
	return &why
}
