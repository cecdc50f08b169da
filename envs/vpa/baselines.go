package vpa

import (
	"context"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/rules"
)

// continuousBaselines returns the baselines of the continuous environment.
func continuousBaselines() []envs.Baseline {
	return append(rules.Plain(follow), rules.Alone(follow, "")...)
}

// discreteBaselines returns each rule twice: by the factors of the discrete environment, and with exact amounts, under
// a name that ends in _exact. Keeping the first requests is already exact.
func discreteBaselines() []envs.Baseline {
	exact := rules.Plain(followExactly)[1:]
	for i := range exact {
		exact[i].Name, exact[i].Doc = exact[i].Name+"_exact", strings.TrimSuffix(exact[i].Doc, ".")+"; sets its amounts as they are."
	}
	return slices.Concat(rules.Plain(follow), exact, rules.Alone(follow, ""), rules.Alone(followExactly, "_exact"))
}

// sharedBaselines returns the baselines for pods that share their node. It omits those that know the future of the
// pods' own demand, which are no bounds there.
func sharedBaselines() []envs.Baseline {
	competing := slices.DeleteFunc(rules.Plain(follow), func(b envs.Baseline) bool { return b.Clairvoyant })
	return append(competing, rules.Shared(follow)...)
}

// follow returns a function that makes the policy of a rule. On the continuous environment the policy leaves a plan
// with the exact recommendation, beside the nearest action. On the discrete one it takes only the nearest action. If an
// action holds for several steps, the plan calls the rule at each of them.
func follow(newRule func() rules.Rule) func(envs.Task) (envs.Policy, error) {
	return policyOf(newRule, false)
}

// followExactly is follow, with a plan on the discrete environment too.
func followExactly(newRule func() rules.Rule) func(envs.Task) (envs.Policy, error) {
	return policyOf(newRule, true)
}

func policyOf(newRule func() rules.Rule, exact bool) func(envs.Task) (envs.Policy, error) {
	return envs.ForTask("vpa: a recommender", func(t *Task) (envs.Policy, error) {
		rule := newRule()
		var last pods.Recommendation
		next := func(ctx context.Context, first bool) pods.Recommendation {
			if r, ok := rule(ctx, t.view(), first); ok {
				last = r
			} else if first {
				last = t.rec // the requests at the start
			}
			return last
		}
		further := func(ctx context.Context) pods.Recommendation { return next(ctx, false) }
		return func(ctx context.Context, _ *cluster.State, first bool, action []float32) error {
			r := next(ctx, first)
			if err := ctx.Err(); err != nil {
				return err
			}
			t.encode(&r, action)
			if !t.src.discrete || exact {
				t.plan = plan{given: r, use: true, follow: further}
			}
			return nil
		}, nil
	})
}
