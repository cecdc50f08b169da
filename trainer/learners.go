package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/a2c"
	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/agents/forecast"
	"github.com/kubernasium/kubernasium/agents/imitation"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/agents/reinforce"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
	"github.com/kubernasium/kubernasium/models/graph"
)

// algos are the names of the algorithms that can be trained.
var algos = []string{ppo.Algo, a2c.Algo, dqn.Algo, reinforce.Algo, ppo.RecurrentAlgo}

func checkAlgo(name string) error {
	if !slices.Contains(algos, name) {
		return fmt.Errorf("no algorithm %q; there is %s", name, strings.Join(algos, ", "))
	}
	return nil
}

// defaultConfig returns a pointer to the algorithm's hyperparameters with its defaults.
func defaultConfig(algo string) any {
	switch algo {
	case a2c.Algo:
		c := a2c.Defaults()
		return &c
	case dqn.Algo:
		c := dqn.Defaults()
		return &c
	case reinforce.Algo:
		c := reinforce.Defaults()
		return &c
	case ppo.RecurrentAlgo:
		c := ppo.RecurrentDefaults()
		return &c
	}
	c := ppo.Defaults()
	return &c
}

// clone returns h with a Config of its own, which the set-up of a learner changes.
func (h hyperparams) clone() hyperparams {
	own := reflect.New(reflect.TypeOf(h.Config).Elem())
	own.Elem().Set(reflect.ValueOf(h.Config).Elem())
	h.Config = own.Interface()
	return h
}

// learner is a learner and its networks.
type learner struct {
	trainable
	nets []network
}

// trainable is what the training loop needs of a learner.
type trainable interface {
	imitation.Learner
	NumTimesteps() int
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
func newLearner(h hyperparams, env agents.EnvInfo, engine string, seed uint64) (*learner, error) {
	l := &learner{}
	build := func(spec models.Spec, err error) (models.Network, error) {
		if err != nil {
			return nil, err
		}
		n, err := newNetwork(engine, spec, rand.New(pcg.New(seed^networkStream)))
		if err != nil {
			return nil, err
		}
		l.nets = append(l.nets, n)
		return n, nil
	}
	var net models.Network
	var err error
	switch c := h.Config.(type) {
	case *ppo.Config:
		c.TotalTimesteps = h.NTimesteps
		if net, err = build(ppo.NetworkSpec(*c, env.Obs, env.Act)); err == nil {
			l.trainable, err = ppo.New(*c, env, net, seed)
		}
	case *ppo.RecurrentConfig:
		c.TotalTimesteps = h.NTimesteps
		if net, err = build(ppo.RecurrentNetworkSpec(*c, env.Obs, env.Act)); err == nil {
			l.trainable, err = ppo.NewRecurrent(*c, env, net, seed)
		}
	case *a2c.Config:
		c.TotalTimesteps = h.NTimesteps
		if net, err = build(a2c.NetworkSpec(*c, env.Obs, env.Act)); err == nil {
			l.trainable, err = a2c.New(*c, env, net, seed)
		}
	case *reinforce.Config:
		c.TotalTimesteps = h.NTimesteps
		if net, err = build(reinforce.NetworkSpec(*c, env.Obs, env.Act)); err == nil {
			l.trainable, err = reinforce.New(*c, env, net, seed)
		}
	case *dqn.Config:
		c.TotalTimesteps = h.NTimesteps
		l.trainable, err = dqn.New(*c, env, func() (models.Network, error) {
			return build(dqn.NetworkSpec(*c, env.Obs, env.Act))
		}, seed)
	}
	return l, err
}

// newPolicy returns the greedy policy of a checkpoint, whose parameters net holds.
func newPolicy(net models.Network, f models.File) (agents.Policy, error) {
	switch f.Meta.Algo {
	case dqn.Algo:
		return dqn.NewPolicy(net, f.Meta.Spec), nil
	case forecast.Algo:
		r, ok := net.(models.Recurrent)
		if !ok {
			return nil, fmt.Errorf("a forecaster on a network of type %T, want a models.Recurrent", net)
		}
		return forecast.NewPolicy(r, f)
	}
	return onpolicy.NewPolicy(net, f)
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
