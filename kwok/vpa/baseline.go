package vpa

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	env "github.com/kubernasium/kubernasium/envs/vpa"
)

// OpenBaseline returns a function for [Config] that makes a model for each container: the named baseline of
// spec with options. spec is k8s/VerticalPodAutoscaler-v0 or its discrete variant. OpenBaseline returns an
// error if spec lacks the baseline, if the baseline knows the future, or if options are invalid.
func OpenBaseline(spec *envs.Spec, options map[string]any, name string) (func() (Model, error), error) {
	b, err := spec.Baseline(name)
	if err != nil {
		return nil, err
	}
	if b.Clairvoyant {
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

// rulePolicy adapts a baseline to one container. No episode is played here, so that the baseline acts without
// an envs.Vec, and only [env.Live] knows which decision is the first.
type rulePolicy struct{ rule envs.Policy }

var _ env.Policy = rulePolicy{}

// Act implements [env.Policy].
func (p rulePolicy) Act(b *envs.Batch, action []float32) error {
	return p.rule(context.Background(), nil, b.Begins(0), action)
}
