package agentstest

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// SB3Cases reads a recording of Stable-Baselines3 that a script in testdata wrote. It returns the
// cases by name.
func SB3Cases[R any](t *testing.T, file string) map[string]R {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]R
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// CheckSB3 compares the result of learn for each configuration with the case of the same name in a
// file that a script in testdata wrote. Each configuration has one case.
func CheckSB3[C, R any](t *testing.T, file string, configs map[string]C, learn func(t *testing.T, config C) R) {
	t.Helper()
	cases := SB3Cases[R](t, file)
	if len(cases) != len(configs) {
		t.Errorf("%d cases in %s, want %d", len(cases), file, len(configs))
	}
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			// torch computes in float32 throughout.
			if diff := cmp.Diff(cases[name], learn(t, config), cmpopts.EquateApprox(1e-4, 2e-6)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// SB3Env describes n environments with the spaces of testdata/sb3_common.py.
func SB3Env(n int) agents.EnvInfo {
	return agents.EnvInfo{ID: "toy/Stub-v0", Obs: space.NewBox(-10, 10, 2), Act: space.Discrete{N: 3}, NumEnvs: n}
}

// SetSine sets parameters to the initial values of testdata/sb3_common.py.
func SetSine(params []models.Param, shift int) {
	for k, p := range params {
		for j := range p.Value {
			p.Value[j] = float32(0.5 * math.Sin(float64(1+j+10*k+shift)))
		}
	}
}

// Flat returns the values of all parameters.
func Flat(params []models.Param) (values []float32) {
	for _, p := range params {
		values = append(values, p.Value...)
	}
	return values
}

// SB3Learner returns a learner of two environments of SB3Env, with a network of engine N that
// starts with SetSine.
func SB3Learner[C any, L Learner, N engine](t *testing.T, a Algorithm[C, L], cfg C, newNetwork func(models.Spec, *rand.Rand) (N, error)) L {
	t.Helper()
	l, err := a(cfg, SB3Env(2), func(spec models.Spec) (models.Network, error) {
		net, err := newNetwork(spec, nil)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { net.Close() })
		SetSine(net.Params(), 0)
		return net, nil
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// engine is a network that can be closed.
type engine interface {
	models.Network
	Close() error
}

// SB3Result holds a rollout and the update from it, as testdata/sb3_common.py writes them.
type SB3Result struct {
	Actions    []float32          `json:"actions"`
	LogProbs   []float32          `json:"log_probs"`
	Advantages []float32          `json:"advantages"`
	Returns    []float32          `json:"returns"`
	Metrics    map[string]float64 `json:"metrics"`
	Params     []float32          `json:"params"`
}

// SB3Rollout is the rollout of testdata/sb3_common.py: environment 0 terminates at t=1 and
// environment 1 is truncated at t=2. Every final observation is (2, −1).
type SB3Rollout struct {
	Mask      func(t, n, action int) bool // nil: everything is permitted
	Truncated [][2]int                    // further steps and environments
}

// Play lets a learner act and observe in the steps [from, to).
func (r SB3Rollout) Play(t *testing.T, l Observer, from, to int) {
	t.Helper()
	actions := make([]float32, 2)
	for k := from; k < to; k++ {
		if err := l.Act(r.batch(k), actions); err != nil {
			t.Fatal(err)
		}
		if err := l.Observe(r.batch(k + 1)); err != nil {
			t.Fatal(err)
		}
	}
}

// batch returns the result of step t-1, on which step t acts.
func (r SB3Rollout) batch(t int) *envs.Batch {
	b := BatchOf(3, 0, 0)
	b.Obs, b.FinalObs = nil, []float32{2, -1, 2, -1}
	for n := range 2 {
		b.Obs = append(b.Obs, 0.25*float32(t)-0.5*float32(n), 0.5-0.125*float32(t*(n+1)))
		for a := range 3 {
			b.Mask[3*n+a] = r.Mask == nil || r.Mask(t, n, a)
		}
	}
	if t == 0 {
		return b
	}
	reward := [4][2]float64{{1, -0.5}, {0.5, 2}, {-1, 0}, {1.5, 1}}
	copy(b.Reward, reward[(t-1)%4][:])
	b.Terminated[0] = t-1 == 1
	for n := range 2 {
		b.Truncated[n] = n == 1 && t-1 == 2 || slices.Contains(r.Truncated, [2]int{t - 1, n})
		b.EpisodeLength[n] = 1 // any number but 0
	}
	return b
}
