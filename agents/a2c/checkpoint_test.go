package a2c_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/a2c"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// TestWorkersGiveEqualCheckpoints: the bytes of a checkpoint do not depend on the number of workers that share
// sampling, losses and passes.
func TestWorkersGiveEqualCheckpoints(t *testing.T) {
	cfg := tiny()
	cfg.NSteps, cfg.NetArch, cfg.EntCoef = 16, []int{64, 64}, 0.01
	var want []byte
	for _, workers := range []int{1, 2, 8} {
		r := agentstest.NewRun(t, envcheck.Identity(5), 40, 3, func(env agents.EnvInfo, seed uint64) (*a2c.Learner, error) {
			s, err := a2c.NetworkSpec(cfg, env.Obs, env.Act)
			if err != nil {
				return nil, err
			}
			net, err := fused.New(s, rand.New(pcg.New(seed)))
			if err != nil {
				return nil, err
			}
			net.SetWorkers(workers)
			net.Team().Stay()
			return a2c.New(cfg, env, net, seed)
		})
		r.Train(3 * 40 * 16)
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

// tiny returns a configuration whose rollouts are 8 steps of 2 environments.
func tiny() a2c.Config {
	cfg := a2c.Defaults()
	cfg.NSteps, cfg.NetArch, cfg.TotalTimesteps = 8, []int{4}, 64
	return cfg
}

// TestLoadRefusesAnotherOptimizer: what else Load refuses is tested with PPO, which shares it.
func TestLoadRefusesAnotherOptimizer(t *testing.T) {
	cfg := tiny()
	cfg.UseRMSProp = false
	other := newRun(t, envcheck.Identity(5), 2, cfg, 3)
	other.Train(32)
	r := newRun(t, envcheck.Identity(5), 2, tiny(), 1)
	r.Train(16)
	r.CheckRefuses(other.Saved(), models.ErrMismatch, "optimizer.square_avg")
}
