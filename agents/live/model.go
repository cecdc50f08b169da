package live

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// twinSuffix ends the name of an environment's twin on an API server, before its version.
const twinSuffix = "Kwok"

// OriginalID returns the id of the environment of which id is the twin on an API server, or id itself.
func OriginalID(id string) string {
	i := strings.LastIndex(id, "-v")
	if i < 0 {
		return id
	}
	return strings.TrimSuffix(id[:i], twinSuffix) + id[i:]
}

// readPolicy returns the policy of a checkpoint for an environment with these spaces, and its network,
// which the caller closes. One over nodes serves any number of them.
func readPolicy(f models.File, env string, obs, act space.Space) (agents.Scorer, *fused.Network, error) {
	want, err := agents.EnvInfo{ID: env, Obs: obs, Act: act}.Checkpoint(f.Meta.Algo, models.Spec{})
	if err != nil {
		return nil, nil, err
	}
	want.Env = "" // findEnv has matched it: the file may name a twin
	if mismatch := f.Meta.Match(want); mismatch != nil {
		if f.Meta.Spec.Nodes == nil {
			return nil, nil, mismatch
		}
		if f.Meta.Spec, err = policies.Rebind(f.Meta.Spec, obs, act); err != nil {
			return nil, nil, errors.Join(mismatch, err)
		}
		f.Meta.ObservationSpace, f.Meta.ActionSpace = want.ObservationSpace, want.ActionSpace
	}
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
	scorer, ok := p.(agents.Scorer)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("live: a policy of type %T does not rate actions", p), net.Close())
	}
	return scorer, net, nil
}
