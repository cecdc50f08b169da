package vpa

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	env "github.com/kubernasium/kubernasium/envs/vpa"
)

// OpenBaseline returns a function for [Config] that makes one model for each container: the
// baseline of that name of spec, which is k8s/VerticalPodAutoscaler-v0 or its discrete variant,
// with options. It returns an error for a name that spec lacks, for a baseline that knows the
// future, and for options that are invalid.
func OpenBaseline(spec *envs.Spec, options map[string]any, name string) (func() (Model, error), error) {
	b, err := spec.Baseline(name)
	if err != nil {
		return nil, err
	}
	if b.Oracle {
		return nil, fmt.Errorf("vpa: baseline %s knows what is to come: nobody does on a cluster", name)
	}
	newTask, err := spec.Open(options)
	if err != nil {
		return nil, err
	}
	return func() (Model, error) {
		task, err := newTask()
		if err != nil {
			return Model{}, err
		}
		rule, err := b.New(task)
		return Model{Task: task, Policy: rulePolicy{rule}, Close: func() error { return nil }}, err
	}, nil
}

// rulePolicy asks a rule for one container. The task plays no episode here, so that the rule is
// asked without an envs.Vec, and [env.Live] alone knows which decision is the first.
type rulePolicy struct{ rule envs.Policy }

var _ env.Policy = rulePolicy{}

// Act implements [env.Policy].
func (p rulePolicy) Act(b *envs.Batch, action []float32) error {
	return p.rule(context.Background(), nil, b.Begins(0), action)
}
