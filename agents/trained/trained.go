// Package trained maps observations to actions with trained models: the files that `trainer train`
// writes and those of models/pretrained.
//
//	p, err := trained.Open("ppo.safetensors")
//	err = p.Act(obs, mask, action)
//
// A [Policy] holds the network, the statistics that normalize observations, and the state of an
// LSTM. Its actions equal those of `trainer eval`, the board and kube-scheduler's plugin bit for
// bit, since these use the same code ([New]).
//
// Equal observations give equal actions. Only Sample is random, with the caller's generator.
package trained

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// New returns the greedy policy of a model file, and its network, whose SetWorkers helps with large batches. The error
// wraps [models.ErrMismatch] or [models.ErrSpec].
func New(f models.File) (agents.Policy, *fused.Network, error) {
	newPolicy, err := algorithms.PolicyReader(f.Meta.Algo)
	if err != nil {
		return nil, nil, err
	}
	net, err := fused.New(f.Meta.Spec, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := f.Params(net.Params()); err != nil {
		return nil, nil, errors.Join(err, net.Close())
	}
	p, err := newPolicy(net, f)
	if err != nil {
		return nil, nil, errors.Join(err, net.Close())
	}
	return p, net, nil
}

// Adapt checks that a model was trained for an environment with these spaces. It changes a policy
// over nodes to their number of nodes and edges. An empty env matches every environment. The error
// wraps [models.ErrMismatch].
func Adapt(f *models.File, env string, obs, act space.Space) error {
	want, err := agents.EnvInfo{ID: env, Obs: obs, Act: act}.Checkpoint(f.Meta.Algo, models.Spec{})
	if err != nil {
		return err
	}
	mismatch := f.Meta.Match(want)
	if mismatch == nil || f.Meta.Spec.Nodes == nil || env != "" && f.Meta.Env != env {
		return mismatch
	}
	if f.Meta.Spec, err = policies.Rebind(f.Meta.Spec, obs, act); err != nil {
		return errors.Join(mismatch, err)
	}
	f.Meta.ObservationSpace, f.Meta.ActionSpace = want.ObservationSpace, want.ActionSpace
	return nil
}

// spaces returns the spaces of a model.
func spaces(f models.File) (obs, act space.Space, err error) {
	for _, s := range []struct {
		text string
		to   *space.Space
	}{{f.Meta.ObservationSpace, &obs}, {f.Meta.ActionSpace, &act}} {
		var d space.Description
		if err := json.Unmarshal([]byte(s.text), &d); err != nil {
			return nil, nil, fmt.Errorf("trained: %w: space %q: %w", models.ErrMismatch, s.text, err)
		}
		if *s.to, err = space.FromDescription(d); err != nil {
			return nil, nil, fmt.Errorf("trained: %w: %w", models.ErrMismatch, err)
		}
	}
	return obs, act, nil
}
