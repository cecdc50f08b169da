package agentstest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// WorkersAgree trains a learner in n environments with different numbers of workers, and compares their checkpoints
// byte for byte. Workers that stay awake step the environments too, as they do in the trainer.
func (a Algorithm[C, L]) WorkersAgree(t *testing.T, spec *envs.Spec, n int, cfg C, steps int) {
	t.Helper()
	var want []byte
	for _, tc := range []struct {
		workers int
		awake   bool
	}{{1, false}, {2, false}, {2, true}, {3, true}, {8, true}} {
		var net *fused.Network
		r := NewRun(t, spec, n, 3, func(env agents.EnvInfo, seed uint64) (L, error) {
			return a(cfg, env, func(spec models.Spec) (_ models.Network, err error) {
				if net, err = fused.New(spec, rand.New(pcg.New(seed))); err == nil {
					net.SetWorkers(tc.workers)
				}
				return net, err
			}, seed)
		})
		if tc.awake {
			r.Vec.Share(net.Team())
			net.Team().Stay()
		}
		r.Train(steps)
		var got bytes.Buffer
		if err := r.L.Save(&got); err != nil {
			t.Fatal(err)
		}
		if tc.workers == 1 {
			want = got.Bytes()
		} else if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%d workers, awake %v, write another checkpoint than one", tc.workers, tc.awake)
		}
	}
}
