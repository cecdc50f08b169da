package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/agents/trained"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/classic"
	"github.com/kubernasium/kubernasium/envs/cluster"
	_ "github.com/kubernasium/kubernasium/envs/podsched/balance"
	_ "github.com/kubernasium/kubernasium/envs/podsched/gpu"
	"github.com/kubernasium/kubernasium/envs/space"
)

// coins is a game of ten coins. Action 0 is worth 0.4, action 1 is worth 1 if the coin shows heads. A coin
// is seen after the action. Ten more actions are worth nothing.
type coins struct {
	heads   []bool
	k       int
	planned bool // by Pass, for its action alone
}

const tosses = 10

func (t *coins) Spaces() (obs, act space.Space) {
	return space.NewBox(0, 1, tosses+1), space.Discrete{N: 12}
}

func (t *coins) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	t.k, t.heads = 0, nil
	return t.Resample(nil, rng)
}

func (t *coins) Resample(_ *cluster.State, rng *rand.Rand) error {
	t.heads = slices.Clip(t.heads[:t.k])
	for len(t.heads) < tosses {
		t.heads = append(t.heads, rng.IntN(2) == 0)
	}
	return nil
}

func (t *coins) Clone(*rand.Rand) envs.Task { return &coins{slices.Clone(t.heads), t.k, t.planned} }

func (t *coins) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	if t.planned && action[0] != 0 {
		return envs.Outcome{}, fmt.Errorf("action %v with a plan for action 0", action[0])
	}
	t.planned = false
	value := 0.0
	switch {
	case action[0] == 0:
		value = 0.4
	case action[0] == 1 && t.heads[t.k]:
		value = 1
	}
	t.k++
	return envs.Outcome{Reward: value, Terminated: t.k == tosses}, nil
}

func (t *coins) TakePlan() envs.Plan {
	if !t.planned {
		return nil
	}
	t.planned = false
	return true
}

func (t *coins) LeavePlan(envs.Plan) { t.planned = true }

func (t *coins) Observe(_ *cluster.State, obs []float32, mask []bool) {
	clear(obs)
	for i, heads := range t.heads[:t.k] {
		if heads {
			obs[i] = 1
		}
	}
	obs[tosses] = float32(t.k) / tosses
	space.PermitAll(mask)
}

// coinSpec is the game with the baseline Pass, which takes action 0, and Toss, which takes action 1.
// begun counts how often Pass was made.
func coinSpec(begun *atomic.Int64) *envs.Spec {
	always := func(action float32) func(envs.Task) (envs.Policy, error) {
		return func(task envs.Task) (envs.Policy, error) {
			if begun != nil && action == 0 {
				begun.Add(1)
			}
			return func(_ context.Context, _ *cluster.State, _ bool, a []float32) error {
				a[0] = action
				task.(*coins).planned = action == 0
				return nil
			}, nil
		}
	}
	return &envs.Spec{
		ID: "test/Coins-v0",
		Open: func(map[string]any) (envs.Maker, error) {
			return func() (envs.Task, error) { return &coins{}, nil }, nil
		},
		Baselines: []envs.Baseline{
			{Name: "Pass", New: always(0)}, {Name: "Toss", New: always(1)}, {Name: "Knows", Clairvoyant: true, New: always(1)},
		},
	}
}

func coinVec(t *testing.T, spec *envs.Spec, n int) *envs.Vec {
	t.Helper()
	v, err := envs.NewVec(spec, n, envs.VecOptions{Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// firstActions returns the first actions of a search in n episodes, and the first coins.
func firstActions(t *testing.T, n int, text string) (actions []float32, heads []bool) {
	t.Helper()
	v := coinVec(t, coinSpec(nil), n)
	b, err := v.Reset(t.Context(), envs.VecResetOptions{Seed: new(uint64)})
	if err != nil {
		t.Fatal(err)
	}
	actions = make([]float32, n)
	if err := mustNew(t, v, text).Act(b, actions); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		heads = append(heads, v.Env(i).Task().(*coins).heads[0])
	}
	return actions, heads
}

func mustNew(t *testing.T, v *envs.Vec, text string) *Policy {
	t.Helper()
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(t.Context(), v, c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestKnowsNoFuture: before the first coin all episodes look alike, so that a search takes the same action
// in all of them: the coin, which is worth 0.5. A clairvoyant one tosses just the coins that show heads.
func TestKnowsNoFuture(t *testing.T) {
	for _, method := range []string{MethodRollout + ":base=Pass,advisers=Toss,k=3,m=400", MethodGumbel + ":base=Pass,k=12,m=200,exploration=0.9"} {
		actions, _ := firstActions(t, 12, method)
		for i, a := range actions {
			if a != 1 {
				t.Errorf("%s: episode %d: action %v, want 1, which is worth 0.5 in the mean", method, i, a)
			}
		}
	}
	actions, heads := firstActions(t, 12, MethodRollout+":base=Pass,advisers=Toss,k=3,m=2,clairvoyant=true")
	for i, a := range actions {
		if (a == 1) != heads[i] {
			t.Errorf("episode %d: a clairvoyant search takes action %v, and the coin shows heads: %v", i, a, heads[i])
		}
	}
}

// TestConfidence: two futures say little about a coin, so that a search that wants ten standard errors
// stays with its base policy.
func TestConfidence(t *testing.T) {
	actions, _ := firstActions(t, 12, "rollout:base=Pass,advisers=Toss,k=3,m=8,confidence=10")
	if !slices.Equal(actions, make([]float32, 12)) {
		t.Errorf("actions %v, want the base policy's, 0", actions)
	}
}

// TestEqualWhateverGoroutines plays an episode in each of three environments with one goroutine and with
// four.
func TestEqualWhateverGoroutines(t *testing.T) {
	for _, text := range []string{"rollout:base=Pass,k=6,m=7", "gumbel:base=Pass,k=6,m=3"} {
		play := func(procs int) *evaluation.Result {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			v := coinVec(t, coinSpec(nil), 3)
			r, err := evaluation.Play(t.Context(), v, mustNew(t, v, text), evaluation.Seeds(1, 3))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if d := cmp.Diff(play(1), play(4)); d != "" {
			t.Errorf("%s with 1 goroutine and 4 (-1 +4):\n%s", text, d)
		}
	}
}

// TestTimeLimit: a clock that jumps beyond the limit at each look ends the search after one future for
// each of three actions.
func TestTimeLimit(t *testing.T) {
	var begun atomic.Int64
	v := coinVec(t, coinSpec(&begun), 1)
	b, err := v.Reset(t.Context(), envs.VecResetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse("rollout:base=Pass,k=3,m=50,ms=10")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), v, c); err == nil {
		t.Error("a time limit without a clock is no error")
	}
	now := time.Unix(0, 0)
	c.Now = func() time.Time { now = now.Add(time.Second); return now }
	p, err := New(t.Context(), v, c)
	if err != nil {
		t.Fatal(err)
	}
	before := begun.Load()
	if err := p.Act(b, make([]float32, 1)); err != nil {
		t.Fatal(err)
	}
	if got := begun.Load() - before; got != 3 {
		t.Errorf("%d simulations, want 3", got)
	}
}

// TestFollowsBase: a search that never deviates plays as its base policy, the devices of its plans
// included.
func TestFollowsBase(t *testing.T) {
	spec, err := envs.Lookup("k8s/GPUPodScheduling-v1")
	if err != nil {
		t.Fatal(err)
	}
	play := func(search bool) *evaluation.Result {
		v, err := envs.NewVec(spec, 1, envs.VecOptions{Autoreset: envs.SameStep, Options: map[string]any{"num_nodes": 6, "devices": "first"}})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if search {
			r, err := evaluation.Play(t.Context(), v, mustNew(t, v, "rollout:base=WeightedFGD,k=2,m=2,horizon=3,confidence=1e9"), []uint64{4})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		policies, err := envs.NewPolicies(v, "WeightedFGD", 0)
		if err != nil {
			t.Fatal(err)
		}
		r, err := evaluation.Play(t.Context(), v, follower{t.Context(), policies}, []uint64{4})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if d := cmp.Diff(play(false), play(true)); d != "" {
		t.Errorf("WeightedFGD and a search over it (-base +search):\n%s", d)
	}
}

const balanceModel = "../../models/pretrained/k8s-PodBalance-v0/ppo.safetensors"

func balanceVec(t *testing.T) *envs.Vec {
	t.Helper()
	v, err := envs.Make("k8s/PodBalance-v0", 1, envs.VecOptions{Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// TestFollowsModel: a search that never deviates, since it wants infinitely many standard errors, plays as the model that
// is its base.
func TestFollowsModel(t *testing.T) {
	v := balanceVec(t)
	obs, act := v.Spaces()
	model, err := trained.OpenFor(balanceModel, obs, act)
	if err != nil {
		t.Fatal(err)
	}
	want, err := evaluation.Play(t.Context(), v, modelPolicy{model}, []uint64{4})
	if err != nil {
		t.Fatal(err)
	}
	v = balanceVec(t)
	c, err := Parse("rollout:base=" + balanceModel + ",k=2,m=2,horizon=2")
	if err != nil {
		t.Fatal(err)
	}
	c.Confidence = math.Inf(1)
	search, err := New(t.Context(), v, c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := evaluation.Play(t.Context(), v, search, []uint64{4})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("a model and a search over it (-model +search):\n%s", d)
	}
}

// TestValueAtHorizon: a simulation of two steps returns r + γ r' + γ² v, with the model's action, discount and value.
func TestValueAtHorizon(t *testing.T) {
	v := balanceVec(t)
	if _, err := v.Reset(t.Context(), envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	p := mustNew(t, v, "rollout:base="+balanceModel+",horizon=2,value=true")
	got, err := p.searcher.workers[0].simulate(t.Context(), v.Env(0), 3, 77)
	if err != nil {
		t.Fatal(err)
	}

	obs, act := v.Spaces()
	model, err := trained.OpenFor(balanceModel, obs, act)
	if err != nil {
		t.Fatal(err)
	}
	e, err := v.Env(0).Branch()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Resample(77); err != nil {
		t.Fatal(err)
	}
	seen, mask, action, value := make([]float32, obs.Size()), make([]bool, model.MaskSize()), []float32{3}, make([]float32, 1)
	first, err := e.Step(t.Context(), action)
	if err != nil {
		t.Fatal(err)
	}
	e.Observe(seen, mask)
	if err := model.Act(seen, mask, action); err != nil {
		t.Fatal(err)
	}
	second, err := e.Step(t.Context(), action)
	if err != nil {
		t.Fatal(err)
	}
	e.Observe(seen, mask)
	if err := model.Values(seen, value); err != nil {
		t.Fatal(err)
	}
	var training struct{ Gamma float64 }
	if err := json.Unmarshal(model.Model().Config, &training); err != nil {
		t.Fatal(err)
	}
	g := training.Gamma
	if want := first.Reward + g*second.Reward + g*g*float64(value[0]); math.Abs(got-want) > 1e-9 || value[0] == 0 || g == 0 || g == 1 {
		t.Errorf("the simulation returns %v, want %v of rewards %v and %v, value %v and discount %v", got, want, first.Reward, second.Reward, value[0], g)
	}
}

type modelPolicy struct{ model *trained.Policy }

func (p modelPolicy) Act(b *envs.Batch, actions []float32) error {
	return p.model.Act(b.Obs, b.Mask, actions)
}

type follower struct {
	ctx      context.Context
	policies *envs.Policies
}

func (f follower) Act(_ *envs.Batch, actions []float32) error {
	return f.policies.Follow(f.ctx, actions)
}

// TestRefuses settings and environments.
func TestRefuses(t *testing.T) {
	for _, text := range []string{
		"tree:base=Pass", "rollout", "rollout:base=Pass,k=1", "rollout:base=Pass,m=0", "rollout:base=Pass,m=1", "rollout:base=Pass,confidence=-1",
		"rollout:base=Pass,speed=3", "gumbel:base=Pass,exploration=1",
		"rollout:base=Pass,horizon=3,value=true", "rollout:base=model.safetensors,value=true",
	} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	v := coinVec(t, coinSpec(nil), 1)
	for _, change := range []func(c *Config){func(c *Config) { c.Confidence = math.NaN() }, func(c *Config) { c.Exploration = math.NaN() }} {
		c := Config{Method: MethodRollout, Parameters: DefaultParameters}
		c.Base = "Pass"
		change(&c)
		if _, err := New(t.Context(), v, c); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
	for _, text := range []string{"rollout:base=Nobody", "rollout:base=Knows", "rollout:base=Pass,advisers=Nobody", "rollout:base=none.safetensors", "rollout:base=" + balanceModel} {
		c, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(t.Context(), v, c); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	for _, tc := range []struct {
		id      string
		options map[string]any
		want    error
	}{
		{"classic/CartPole-v1", nil, envs.ErrCannotResample}, // whose task can be copied, but not resampled
		{"k8s/GPUPodScheduling-v1", map[string]any{"dynamics": "timed", "num_pods": 20, "num_nodes": 4}, envs.ErrCannotResample},
	} {
		v, err := envs.Make(tc.id, 1, envs.VecOptions{Options: tc.options})
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse("rollout:base=FGD,k=2,m=2")
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(t.Context(), v, c)
		if err == nil {
			b, resetErr := v.Reset(t.Context(), envs.VecResetOptions{})
			err = errors.Join(resetErr, p.Act(b, make([]float32, 1)))
		}
		if !errors.Is(err, tc.want) {
			t.Errorf("%s with %v: %v, want %v", tc.id, tc.options, err, tc.want)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
}
