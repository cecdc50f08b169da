package core

import (
	"fmt"

	"github.com/kubernasium/kubernasium/agents/a2c"
	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// gate is a published result and the training that must reach it.
type gate struct {
	name      string
	algo, env string
	conf      string // in the form of run.ReadHyperparams
	bar       bar
	seeds     seedRange // the gate's own seeds, used if neither --seed nor --seeds is given; zero: none
}

// seedRange is n random seeds from first on.
type seedRange struct {
	first uint64
	n     int
}

// bar is the criterion of a gate for the trainings with different seeds.
type bar int

const (
	noBar    bar = iota // none; reported for comparison
	evalBar             // the last policy's mean return over held-out episodes
	trainBar            // the mean return of the last 100 episodes of training
)

// solved is the mean return at which Gymnasium considers CartPole-v1 solved.
const solved = 475

// published is CleanRL's PPO on CartPole-v1 after 500,000 steps, 490.04 ± 6.12: the mean of the
// last 100 episodes of training, over three seeds. Source: CleanRL, docs/rl-algorithms/ppo.
const published = 490.04

const cartPole = "classic/CartPole-v1"

var gates = []gate{
	{name: "PPO", algo: ppo.Algo, env: cartPole, bar: evalBar},
	{name: "A2C", algo: a2c.Algo, env: cartPole, bar: evalBar},
	// These seeds had no part in the choice of the settings or of their number.
	{name: "DQN", algo: dqn.Algo, env: cartPole, bar: evalBar, seeds: seedRange{601, 20}},
	{name: "DQN (soft target, double, 5 steps)", algo: dqn.Algo, env: cartPole, conf: "rl_zoo_soft", bar: noBar},
	// Its gate is parity with Stable-Baselines3: see tools/bench_dqn.py.
	{name: "DQN (RL Zoo)", algo: dqn.Algo, env: cartPole, conf: "rl_zoo", bar: noBar},
	{name: "PPO (CleanRL)", algo: ppo.Algo, env: cartPole, conf: "cleanrl", bar: trainBar},
}

// reached returns the number of trainings whose last policy solves the environment.
func reached(runs []learned) int {
	n := 0
	for _, r := range runs {
		if r.last() >= solved {
			n++
		}
	}
	return n
}

// verdict describes the trainings' result, and reports whether it passes: four of five seeds, or the same
// fraction of another number.
func (b bar) verdict(runs []learned) (what string, ok bool) {
	switch b {
	case evalBar:
		n := reached(runs)
		return fmt.Sprintf("%d of %d reach %d", n, len(runs), solved), 5*n >= 4*len(runs)
	case trainBar:
		mean := tracking.Mean(trainReturns(runs))
		return fmt.Sprintf("%.1f in training, published %.2f", mean, published), mean >= published
	}
	return fmt.Sprintf("%d of %d reach %d", reached(runs), len(runs), solved), true
}

func trainReturns(runs []learned) []float64 {
	x := make([]float64, len(runs))
	for i, r := range runs {
		x[i] = r.train
	}
	return x
}
