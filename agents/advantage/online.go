package advantage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/lookahead"
	"github.com/kubernasium/kubernasium/envs/lra/online"
	"github.com/kubernasium/kubernasium/envs/lra/prices"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// Online is the domain of k8s/LRAOnline-v0. The index plays the futures and chooses the nodes tried; the score is that of
// the baseline index_ahead. The value of a node is the throughput until the horizon plus the worth of all nodes at its
// end.
type Online struct {
	Horizon float64 // of futures, in mean lifetimes of a container
}

// OnlineDefaults returns the settings of docs/results/lra.md.
func OnlineDefaults() (Config, *Online) {
	d := &Online{Horizon: 0.2}
	return Config{
		Env: "k8s/LRAOnline-v0", Domain: d, Rounds: 4, Episodes: 60, Density: 1, Best: 6, Others: 1, Futures: 1, Explore: 0.15,
		Width: 96, Steps: 15_000, Batch: 256, LearningRate: 0.002, Weight: 0.43,
	}, d
}

// Kwargs implements [Domain].
func (d *Online) Kwargs(map[string]any) {}

var _ Domain = (*Online)(nil)

// onlineGains implements [Gains].
type onlineGains struct {
	*Online
	t       *online.Task
	l       *lookahead.Lookahead
	futures int
	worth   []float64
}

// Gains implements [Domain].
func (d *Online) Gains(task envs.Task, futures int) (Gains, error) {
	t, ok := task.(*online.Task)
	switch {
	case !ok:
		return nil, fmt.Errorf("advantage: gains of %T, want a task of k8s/LRAOnline", task)
	case futures < 1:
		return nil, errors.New("advantage: gains of no futures")
	case !(d.Horizon > 0):
		return nil, fmt.Errorf("advantage: gains within %v lifetimes, want more than 0", d.Horizon)
	}
	return &onlineGains{Online: d, t: t, l: t.Lookahead(), futures: futures}, nil
}

// Begin implements [Gains].
func (g *onlineGains) Begin() error { return nil }

// Over implements [Gains].
func (g *onlineGains) Over() bool { return g.t.App() == world.NoApp }

// Eligible implements [Gains].
func (g *onlineGains) Eligible() bool { return true }

// Nodes implements [Gains].
func (g *onlineGains) Nodes(best, others int, rng *rand.Rand) []int32 {
	return g.l.Nodes(g.t.Placement(), g.t.App(), best, others, rng)
}

// Play implements [Gains].
func (g *onlineGains) Play(nodes []int32, rng *rand.Rand) []float64 {
	g.worth = g.l.Play(context.Background(), g.worth[:0], g.t.Placement(), g.t.App(), nodes, g.futures, g.Horizon, rng)
	return g.worth
}

// Score implements [Gains]: that of the baseline index_ahead. Its next containers gain the margins of the node over all
// others, where these are positive, after it gets the container, and lose those before.
func (g *onlineGains) Score() (columns []Column, err error) {
	for k, name := range g.t.Features()[0].Names {
		const next = prices.DefaultNext / lra.NumApps
		switch {
		case name == "index":
			columns = append(columns, Column{Column: k, Weight: 1})
		case strings.HasPrefix(name, "margin_after_"):
			columns = append(columns, Column{Column: k, Weight: next, Positive: true})
		case strings.HasPrefix(name, "margin_"):
			columns = append(columns, Column{Column: k, Weight: -next, Positive: true})
		}
	}
	return columns, nil
}
