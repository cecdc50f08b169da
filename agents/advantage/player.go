package advantage

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// player plays episodes of one environment and samples decisions.
type player struct {
	c     *Config
	v     *envs.Vec
	gains Gains
	nodes models.Nodes
	score []Column

	net  *fused.Network // whose policy plays; nil: the heuristic
	rows []float32
}

// player returns a player of an environment. With a network its policy plays, and else the heuristic.
func (c *Config) player(v *envs.Vec, net *fused.Network) (p *player, err error) {
	p = &player{c: c, v: v}
	if p.gains, err = c.Domain.Gains(v.Env(0).Task(), c.Futures); err != nil {
		return nil, err
	}
	obs, act := v.Spaces()
	nodes, wait, err := policies.Nodes(obs, act)
	if err != nil {
		return nil, err
	}
	if nodes.Edges != nil || wait {
		return nil, fmt.Errorf("%w: advantages are learned without edges and defer", envs.ErrInvalidOption)
	}
	p.nodes = nodes
	if p.score, err = p.gains.Score(); err != nil {
		return nil, err
	}
	if net != nil {
		if p.net, err = copyOf(net); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// episode plays episode k and returns the sampled decisions.
func (p *player) episode(ctx context.Context, k int, seed uint64) (decisions []Decision, err error) {
	rng := rand.New(pcg.New(seed))
	b, err := p.v.Reset(ctx, envs.VecResetOptions{Seeds: []uint64{seed}})
	if err != nil {
		return nil, err
	}
	if err := p.gains.Begin(); err != nil || p.gains.Over() {
		return nil, err
	}
	for {
		if p.gains.Eligible() && rng.Float64() < p.c.Density {
			if tried := p.gains.Nodes(p.c.Best, p.c.Others, rng); len(tried) > 1 {
				decisions = append(decisions, p.decision(k, b.Obs, tried, p.gains.Play(tried, rng)))
			}
		}
		node, err := p.act(k, b, rng)
		if err != nil {
			return nil, err
		}
		if b, err = p.v.Step(ctx, []float32{float32(node)}); err != nil {
			return nil, err
		}
		if b.Done(0) {
			return decisions, nil
		}
	}
}

// act chooses a node.
func (p *player) act(k int, b *envs.Batch, rng *rand.Rand) (int32, error) {
	if p.net != nil {
		return p.best(b.Obs, b.Mask)
	}
	best := 1
	if k%2 == 1 && rng.Float64() < p.c.Explore {
		best = 4
	}
	chosen := p.gains.Nodes(best, 0, rng)
	return chosen[rng.IntN(len(chosen))], nil
}

// best returns the permitted node with the highest sum of the network's gain and the weighted score.
func (p *player) best(obs []float32, mask []bool) (int32, error) {
	p.rows = p.rows[:0]
	for i := range p.nodes.N {
		p.rows = p.row(p.rows, obs, i)
	}
	q, err := p.net.Forward(p.rows, p.nodes.N)
	if err != nil {
		return 0, err
	}
	node, most := int32(0), float32(math.Inf(-1))
	width := len(p.rows) / p.nodes.N
	for i, gain := range q[:p.nodes.N] {
		if x := gain + float32(p.c.Weight)*p.scoreOf(p.rows[i*width:]); mask[i] && x > most {
			node, most = int32(i), x
		}
	}
	return node, nil
}

// scoreOf returns the heuristic's score of a node's row.
func (p *player) scoreOf(row []float32) (score float32) {
	for _, c := range p.score {
		score += c.of(row)
	}
	return score
}

// row appends the row of a node and the globals.
func (p *player) row(dst, obs []float32, node int) []float32 {
	n := &p.nodes
	dst = append(dst, obs[n.Offset+node*n.Features:][:n.Features]...)
	return append(append(dst, obs[:n.Offset]...), obs[n.Offset+n.N*n.Features:]...)
}

// decision returns a Decision of the nodes tried and their values.
func (p *player) decision(episode int, obs []float32, tried []int32, worth []float64) Decision {
	n := &p.nodes
	d := Decision{
		Episode: episode, Nodes: make([]float32, 0, len(tried)*n.Features), Globals: slices.Concat(obs[:n.Offset], obs[n.Offset+n.N*n.Features:]),
		Scores: make([]float32, 0, len(tried)), Gains: make([]float32, 0, len(tried)),
	}
	mean := 0.0
	for _, x := range worth {
		mean += x / float64(len(worth))
	}
	for i, node := range tried {
		row := obs[n.Offset+int(node)*n.Features:][:n.Features]
		d.Nodes, d.Scores = append(d.Nodes, row...), append(d.Scores, p.scoreOf(row))
		d.Gains = append(d.Gains, float32(worth[i]-mean))
	}
	return d
}

// copyOf returns a network with the parameters of net.
func copyOf(net *fused.Network) (*fused.Network, error) {
	c, err := fused.New(net.Spec(), nil)
	if err != nil {
		return nil, err
	}
	for i, p := range net.Params() {
		copy(c.Params()[i].Value, p.Value)
	}
	return c, nil
}
