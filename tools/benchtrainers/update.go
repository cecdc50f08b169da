package main

import (
	"math/rand/v2"
	"time"

	"github.com/kubernasium/kubernasium/agents/categorical"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
	"github.com/kubernasium/kubernasium/models/optim"
	"github.com/kubernasium/kubernasium/tools/cputime"
)

// updates makes n updates with batch rows: forward, the gradient of an actor-critic loss, backward, clipping
// and Adam. The network is that of PPO's defaults for 32 numbers and 8 actions.
func updates(n, batch int) (report, error) {
	const inputs, actions = 32, 8
	rng := rand.New(pcg.New(1))
	spec := models.ActorCritic(inputs, actions, []int{64, 64}, models.Tanh)
	net, err := fused.New(spec, rng)
	if err != nil {
		return report{}, err
	}
	params := net.Params()
	adam := optim.NewAdam(params, optim.AdamConfig{Beta1: 0.9, Beta2: 0.999, Eps: 1e-5})
	obs, k := make([]float32, batch*inputs), spec.Outputs()
	for i := range obs {
		obs[i] = float32(rng.NormFloat64())
	}
	dOut, dist := make([]float32, batch*k), categorical.New(actions)
	r := report{Kernels: net.Kernels()}
	begun, cpu := time.Now(), cputime.Used().Seconds()
	for range n {
		out, err := net.Forward(obs, batch)
		if err != nil {
			return r, err
		}
		clear(dOut)
		for i := range batch {
			row, d := out[i*k:(i+1)*k], dOut[i*k:(i+1)*k]
			dist.Condition(row[:actions], nil)
			dist.Grad(d[:actions], i%actions, -1/float64(batch), -0.01/float64(batch))
			d[actions] = row[actions] / float32(batch)
		}
		if err := net.Backward(dOut); err != nil {
			return r, err
		}
		optim.ClipGradNorm(params, 0.5)
		adam.Step(3e-4)
	}
	r.Updates, r.Wall, r.CPU = n, time.Since(begun).Seconds(), cputime.Used().Seconds()-cpu
	return r, nil
}
