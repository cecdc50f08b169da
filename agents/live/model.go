package live

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/trained"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// twinSuffix ends the name of an environment's twin on an API server, before its version.
const twinSuffix = "Kwok"

// OriginalID returns the id of the simulated environment if id names its twin on an API server, and otherwise id itself.
func OriginalID(id string) string {
	i := strings.LastIndex(id, "-v")
	if i < 0 {
		return id
	}
	return strings.TrimSuffix(id[:i], twinSuffix) + id[i:]
}

// readPolicy returns the policy of a checkpoint for an environment with these spaces, and its network, which the caller
// closes. A policy over nodes accepts any number of nodes.
func readPolicy(f models.File, obs, act space.Space) (agents.Scorer, *fused.Network, error) {
	if err := trained.Adapt(&f, "", obs, act); err != nil { // findEnv has checked the environment; the file may name its twin
		return nil, nil, err
	}
	p, net, err := trained.New(f)
	if err != nil {
		return nil, nil, err
	}
	scorer, ok := p.(agents.Scorer)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("live: a policy of type %T does not rate actions", p), net.Close())
	}
	return scorer, net, nil
}
