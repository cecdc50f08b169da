package envcheck

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// IdentityBox is [Identity] with actions of a Box, like Stable-Baselines3's IdentityEnvBox. The observation is size
// numbers in [-1, 1]. An action earns 1 if each of its numbers is within eps of the observation's. The optimal return
// is 100, which the baseline Identity attains.
func IdentityBox(size int, eps float64) *envs.Spec {
	s := toySpec("toy/IdentityBox-v0", 100, func() envs.Task { return &identityBox{want: make([]float32, size), eps: eps} })
	s.Baselines = answer("Identity", "Answers the observation.", func(t *identityBox, action []float32) { copy(action, t.want) })
	return s
}

type identityBox struct {
	want []float32
	eps  float64
	rng  *rand.Rand
}

func (t *identityBox) Spaces() (obs, act space.Space) {
	return space.NewBox(-1, 1, len(t.want)), space.NewBox(-1, 1, len(t.want))
}

func (t *identityBox) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	t.rng = rng
	t.draw()
	return nil
}

func (t *identityBox) draw() {
	for i := range t.want {
		t.want[i] = 2*t.rng.Float32() - 1
	}
}

func (t *identityBox) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	o := envs.Outcome{Reward: 1}
	for i, a := range action {
		if math.Abs(float64(a-t.want[i])) > t.eps {
			o.Reward = 0
		}
	}
	t.draw()
	return o, nil
}

func (t *identityBox) Observe(_ *cluster.State, obs []float32, _ []bool) { copy(obs, t.want) }

// IdentityMultiDiscrete is [Identity] with actions of several parts, like Stable-Baselines3's IdentityEnvMultiDiscrete.
// The observation has a one-hot vector for each part. An action with all parts right earns 1. The mask forbids each
// wrong choice with probability one half. The optimal return is 100.
func IdentityMultiDiscrete(nvec ...int) *envs.Spec {
	return toySpec("toy/IdentityMultiDiscrete-v0", 100, func() envs.Task {
		return &identityParts{act: space.MultiDiscrete{NVec: nvec}, sizes: nvec, want: make([]int, len(nvec))}
	})
}

// IdentityMultiBinary is [IdentityMultiDiscrete] with n parts of two choices, as actions of
// MultiBinary.
func IdentityMultiBinary(n int) *envs.Spec {
	return toySpec("toy/IdentityMultiBinary-v0", 100, func() envs.Task {
		return &identityParts{act: space.MultiBinary{N: n}, sizes: slices.Repeat([]int{2}, n), want: make([]int, n)}
	})
}

type identityParts struct {
	act         space.Space
	sizes, want []int
	permitted   []bool
	rng         *rand.Rand
}

func (t *identityParts) Spaces() (obs, act space.Space) {
	return space.NewBox(0, 1, space.MaskSize(t.act)), t.act
}

func (t *identityParts) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	t.rng, t.permitted = rng, make([]bool, space.MaskSize(t.act))
	t.draw()
	return nil
}

func (t *identityParts) draw() {
	from := 0
	for i, n := range t.sizes {
		t.want[i] = t.rng.IntN(n)
		for k := range n {
			t.permitted[from+k] = k == t.want[i] || t.rng.IntN(2) == 0
		}
		from += n
	}
}

func (t *identityParts) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	o := envs.Outcome{Reward: 1}
	for i, a := range action {
		if int(a) != t.want[i] {
			o.Reward = 0
		}
	}
	t.draw()
	return o, nil
}

func (t *identityParts) Observe(_ *cluster.State, obs []float32, mask []bool) {
	from := 0
	for i, n := range t.sizes {
		oneHot(obs[from:from+n], t.want[i])
		from += n
	}
	copy(mask, t.permitted)
}
