package play

import (
	"errors"
	"fmt"
	"io"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/scheduler"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// SchedulerPolicy returns the policy of a model file, or of a baseline of env.
func SchedulerPolicy(path, baseline, env string, given map[string]any) (*scheduler.Policy, error) {
	var paths []string
	p := &scheduler.Policy{Name: baseline, Baseline: baseline}
	if path != "" {
		paths, env = []string{path}, ""
	}
	id, trained, err := EnvOf(env, paths)
	if err != nil {
		return nil, err
	}
	if p.Env, _, err = kwok.Original(id); err != nil {
		return nil, err
	}
	p.Options = cli.MergeKwargs(optionsFor(p.Env.ID, id, cli.MergeKwargs(trained, given)))
	if path == "" {
		_, err := p.Env.Baseline(baseline)
		return p, err
	}
	m, err := ReadModel(path)
	if err != nil {
		return nil, err
	}
	p.Name = ModelName(path, m.Meta.Algo, true)
	p.Agent = func(obs, act space.Space) (scheduler.Agent, error) {
		m, err := readModelOf(path, id, obs, act)
		if err != nil {
			return nil, err
		}
		scorer, ok := m.Policy.(agents.Scorer)
		if !ok {
			return nil, errors.Join(fmt.Errorf("%s: a policy of type %T does not rate actions", path, m.Policy), m.Net.Close())
		}
		return nodeAgent{scorer, m}, nil
	}
	return p, m.Net.Close()
}

// nodeAgent is a model that acts as a scheduler's agent.
type nodeAgent struct {
	agents.Scorer
	m *Model
}

var (
	_ scheduler.Scorer = nodeAgent{}
	_ io.Closer        = nodeAgent{}
)

// Close implements [io.Closer].
func (a nodeAgent) Close() error { return a.m.Net.Close() }
