package ppo_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models/fused"
)

// TestWorkersGiveEqualCheckpoints: the bytes of a checkpoint do not depend on the number of workers that share
// sampling, gathering, losses, passes, Adam's steps, advantages and the environments' steps.
func TestWorkersGiveEqualCheckpoints(t *testing.T) {
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name                  string
		envs, nSteps, batch   int
		arch                  []int
		layerNorm, normalized bool
	}{
		{"minibatches of 64", 8, 64, 64, []int{64, 64}, false, false},
		{"256", 8, 64, 256, []int{64, 64}, false, true},
		{"1024", 64, 32, 1024, []int{64, 64}, false, false},
		{"1024, layer norms", 64, 32, 1024, []int{64, 64}, true, false},
		{"5120, many environments", 640, 16, 5120, []int{64, 64}, false, false},
		{"128, many parameters", 8, 32, 128, []int{200, 200}, false, false},
	} {
		cfg := ppo.Defaults()
		cfg.NSteps, cfg.BatchSize, cfg.NEpochs, cfg.EntCoef = tc.nSteps, tc.batch, 2, 0.01
		cfg.NetArch, cfg.LayerNorm, cfg.NormObs = tc.arch, tc.layerNorm, tc.normalized
		cfg.TotalTimesteps = 1_000_000
		var want []byte
		for _, workers := range []int{1, 2, 3, 8} {
			var net *fused.Network
			r := agentstest.NewRun(t, spec, tc.envs, 3, func(env agents.EnvInfo, seed uint64) (*ppo.Learner, error) {
				s, err := ppo.NetworkSpec(cfg, env.Obs, env.Act)
				if err != nil {
					return nil, err
				}
				net, err = fused.New(s, rand.New(pcg.New(seed)))
				if err != nil {
					return nil, err
				}
				net.SetWorkers(workers)
				return ppo.New(cfg, env, net, seed)
			})
			if workers > 2 {
				r.Vec.Share(net.Team())
				net.Team().Stay()
			}
			r.Train(2 * tc.envs * tc.nSteps)
			var got bytes.Buffer
			if err := r.L.Save(&got); err != nil {
				t.Fatal(err)
			}
			if workers == 1 {
				want = got.Bytes()
			} else if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s: %d workers write another checkpoint than one", tc.name, workers)
			}
		}
	}
}

// TestRecurrentWorkersGiveEqualCheckpoints: likewise with LSTMs, whose passes workers share by environments and columns.
func TestRecurrentWorkersGiveEqualCheckpoints(t *testing.T) {
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	cfg := ppo.RecurrentDefaults()
	cfg.NSteps, cfg.BatchSize, cfg.NEpochs, cfg.TotalTimesteps = 16, 320, 2, 1_000_000
	cfg.LSTMHiddenSize, cfg.NLSTMLayers = 48, 2
	var want []byte
	for _, workers := range []int{1, 2, 8} {
		r := agentstest.NewRun(t, spec, 40, 3, func(env agents.EnvInfo, seed uint64) (*ppo.Learner, error) {
			s, err := ppo.RecurrentNetworkSpec(cfg, env.Obs, env.Act)
			if err != nil {
				return nil, err
			}
			net, err := fused.New(s, rand.New(pcg.New(seed)))
			if err != nil {
				return nil, err
			}
			net.SetWorkers(workers)
			net.Team().Stay()
			return ppo.NewRecurrent(cfg, env, net, seed)
		})
		r.Train(2 * 40 * 16)
		var got bytes.Buffer
		if err := r.L.Save(&got); err != nil {
			t.Fatal(err)
		}
		if workers == 1 {
			want = got.Bytes()
		} else if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%d workers write another checkpoint than one", workers)
		}
	}
}
