package main

import (
	"fmt"

	"github.com/kubernasium/kubernasium/agents/a2c"
	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// gate is a published result and the training that has to reach it.
type gate struct {
	name      string
	algo, env string
	conf      string // as readHyperparams takes it
	bar       bar
}

// bar says what a gate asks of the trainings with different seeds.
type bar int

const (
	noBar    bar = iota // reported for comparison
	evalBar             // the last policy's mean over held-out episodes
	trainBar            // the mean of the last 100 episodes of training
)

// solved is the mean return at which Gymnasium calls CartPole-v1 solved.
const solved = 475

// published is CleanRL's PPO on CartPole-v1 after 500,000 steps, 490.04 ± 6.12: the mean of the
// last 100 episodes of training, over three seeds. Source: CleanRL, docs/rl-algorithms/ppo.
const published = 490.04

const cartPole = "classic/CartPole-v1"

var gates = []gate{
	{"PPO", ppo.Algo, cartPole, "", evalBar},
	{"A2C", a2c.Algo, cartPole, "", evalBar},
	{"DQN", dqn.Algo, cartPole, "", evalBar},
	{"DQN (RL Zoo, soft target)", dqn.Algo, cartPole, "rl_zoo_soft", evalBar},
	{"DQN (RL Zoo)", dqn.Algo, cartPole, "rl_zoo", noBar},
	{"PPO (CleanRL)", ppo.Algo, cartPole, "cleanrl", trainBar},
}

// reached returns how many trainings have a last policy that solves the environment.
func reached(runs []learned) int {
	n := 0
	for _, r := range runs {
		if r.last() >= solved {
			n++
		}
	}
	return n
}

// verdict returns what the trainings reached, and whether that is enough: four of five seeds, and
// the same share of other numbers.
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
