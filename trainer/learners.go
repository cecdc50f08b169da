package main

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
	"github.com/kubernasium/kubernasium/models/graph"
)

// learner is a learner and its networks.
type learner struct {
	algorithms.Learner
	nets []network
}

// close releases the networks.
func (l *learner) close() error {
	var err error
	for _, n := range l.nets {
		err = errors.Join(err, n.Close())
	}
	return err
}

// networkStream separates the random numbers of a network's first weights from those of the
// learner, which has the same seed. Its value is arbitrary.
const networkStream = 0x6b75_6265

// newLearner makes the learner of an algorithm with fresh weights.
func newLearner(algo string, h hyperparams, env agents.EnvInfo, engine string, seed uint64) (*learner, error) {
	a, err := algorithms.Get(algo)
	if err != nil {
		return nil, err
	}
	l := &learner{}
	l.Learner, err = a.New(h.Config, h.NTimesteps, env, func(spec models.Spec) (models.Network, error) {
		n, err := newNetwork(engine, spec, rand.New(pcg.New(seed^networkStream)))
		if err != nil {
			return nil, err
		}
		l.nets = append(l.nets, n)
		return n, nil
	}, seed)
	return l, err
}

// The engines of networks.
const (
	engineFused    = "fused"    // explicit kernels: the default
	engineGorgonia = "gorgonia" // automatic differentiation: the oracle of the other
)

// network is what both engines make.
type network interface {
	models.Network
	Close() error
}

// newNetwork builds a network with an engine; a nil rng leaves its parameters zero.
func newNetwork(engine string, spec models.Spec, rng *rand.Rand) (network, error) {
	switch engine {
	case engineFused:
		return fused.New(spec, rng)
	case engineGorgonia:
		return graph.New(spec, rng)
	}
	return nil, fmt.Errorf("no engine %q; there are %s and %s", engine, engineFused, engineGorgonia)
}
