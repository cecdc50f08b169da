package run

import (
	"errors"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/team"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// Learner is a learner and its networks.
type Learner struct {
	algorithms.Learner
	Nets []play.Network
}

// Close releases the networks.
func (l *Learner) Close() error {
	var err error
	for _, n := range l.Nets {
		err = errors.Join(err, n.Close())
	}
	return err
}

// SetWorkers sets the number of goroutines that share the work of those networks that can share it.
func (l *Learner) SetWorkers(workers int) {
	for _, n := range l.Nets {
		if s, ok := n.(interface{ SetWorkers(int) }); ok {
			s.SetWorkers(workers)
		}
	}
}

// Share lets the network's goroutines also step the environments, if the learner has only one network with
// several goroutines, and the environments are simulated in this process.
func (l *Learner) Share(v envs.VecEnv) {
	local, ok := v.(*envs.Vec)
	if !ok || len(l.Nets) != 1 || local.Spec().Nondeterministic {
		return
	}
	if t := team.Of(l.Nets[0]); t.Workers() > 1 {
		local.Share(t)
		t.Stay()
	}
}

// NewLearner returns a learner of the algorithm with new weights.
func NewLearner(algo string, h Hyperparams, env agents.EnvInfo, engine string, seed uint64) (*Learner, error) {
	a, err := algorithms.Get(algo)
	if err != nil {
		return nil, err
	}
	l := &Learner{}
	l.Learner, err = a.New(h.Config, h.NTimesteps, env, func(spec models.Spec) (models.Network, error) {
		n, err := play.NewNetwork(engine, spec, rand.New(pcg.New(seed^play.NetworkStream)))
		if err != nil {
			return nil, err
		}
		l.Nets = append(l.Nets, n)
		return n, nil
	}, seed)
	return l, err
}
