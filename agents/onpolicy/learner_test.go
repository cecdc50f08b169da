package onpolicy

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/imitation"
	"github.com/kubernasium/kubernasium/agents/normalize"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models/optim"
)

// collector returns a Collector of two environments with observations of one number.
func collector(t *testing.T, net *agentstest.Stub, act space.Space, norm normalize.Normalization) *Collector {
	t.Helper()
	env := agentstest.Env(net.Actions, 2)
	env.Act = act
	spec, err := policies.Defaults().ActorCritic(env.Obs, act)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewActor(Settings{Algo: "stub", Env: env, Spec: spec, NewNetwork: agents.Given(net), Normalize: norm, Gamma: 0.5, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCollector(a, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.actor.Optimizer = optim.NewAdam(c.actor.Params, optim.DefaultAdam())
	return c
}

func normalized() normalize.Normalization {
	n := normalize.Defaults()
	n.NormObs, n.NormReward = true, true
	return n
}

// approx ignores that VecNormalize's statistics begin with 1e-4 rows of mean 0 and variance 1.
var approx = cmpopts.EquateApprox(0, 2e-3)

// TestCollectorNormalizes: the observations 2 and 4 have the mean 3 and the variance 1; with 6
// and 8 they have 5 and 5. The rewards 2 and 6 are returns with the variance 4, by whose root
// rewards are divided. The final observation 5 of the truncated episode is the mean.
func TestCollectorNormalizes(t *testing.T) {
	net := agentstest.NewStub(2, func(obs []float32, _ float32) []float32 { return []float32{0, 0, 10 * obs[0]} })
	c := collector(t, net, space.Discrete{N: 2}, normalized())
	b, actions := agentstest.BatchOf(2, 2, 4), make([]float32, 2)
	if err := c.Act(b, actions); err != nil {
		t.Fatal(err)
	}
	copy(b.Obs, []float32{6, 8})
	copy(b.Reward, []float64{2, 6})
	b.Truncated[0], b.FinalObs[0] = true, 5
	if err := errors.Join(c.Observe(b), c.Act(b, actions)); err != nil {
		t.Fatal(err)
	}
	root := float32(math.Sqrt(5))
	if d := cmp.Diff([]float32{-1, 1, 1 / root, 3 / root}, c.Buf.Obs, approx); d != "" {
		t.Errorf("observations (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]float64{1, 3}, c.Buf.Reward[:2], approx); d != "" {
		t.Errorf("rewards (-want +got):\n%s", d)
	}
	b.Truncated[0] = false
	if err := c.Observe(b); err != nil { // only now the value of what followed the first step is known
		t.Fatal(err)
	}
	if d := cmp.Diff([]float32{0, 30 / root}, c.Buf.NextValue[:2], cmpopts.EquateApprox(0, 2e-2)); d != "" {
		t.Errorf("values of what followed (-want +got):\n%s", d)
	}
}

// TestBoxActionsAreClipped has a policy whose mean 5 lies far outside the bounds: the environment
// gets the bound, in training, from Greedy and from a checkpoint's policy; the learner keeps
// what it sampled.
func TestBoxActionsAreClipped(t *testing.T) {
	act := space.NewBox(-0.5, 0.25, 1)
	net := agentstest.NewStub(2, nil)
	c := collector(t, net, act, normalize.Normalization{})
	row := make([]float32, c.actor.Spec().Outputs())
	from, _ := c.actor.Spec().Head("action_net")
	row[from] = 5
	net.Outputs = func([]float32, float32) []float32 { return row }
	b := agentstest.BatchOf(0, 0, 0)
	var file bytes.Buffer
	if err := c.Save(&file); err != nil {
		t.Fatal(err)
	}
	loaded, err := NewPolicy(net, agentstest.Parse(t, file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for name, policy := range map[string]agents.Policy{"Act": c, "Greedy": c.actor.Greedy(), "NewPolicy": loaded} {
		actions := make([]float32, 2)
		if err := policy.Act(b, actions); err != nil {
			t.Fatal(err)
		}
		if actions[0] != 0.25 || actions[1] != 0.25 {
			t.Errorf("%s plays %v, want the upper bound 0.25", name, actions)
		}
	}
	for _, sampled := range c.Buf.Action[:2] {
		if sampled < 1 { // 5 with a standard deviation of 1
			t.Errorf("the rollout has the action %v, want what was sampled", sampled)
		}
	}
}

// TestPoliciesNormalize: Greedy, and the policy of a checkpoint, see normalized observations:
// after 2 and 4, the observation 5 is 2, and 1 is −2, which chooses the first action.
func TestPoliciesNormalize(t *testing.T) {
	net := agentstest.NewStub(2, func(obs []float32, _ float32) []float32 { return []float32{0, obs[0], 0} })
	c := collector(t, net, space.Discrete{N: 2}, normalized())
	if err := c.Act(agentstest.BatchOf(2, 2, 4), make([]float32, 2)); err != nil {
		t.Fatal(err)
	}
	c.Buf.Clear()
	var file bytes.Buffer
	if err := c.Save(&file); err != nil {
		t.Fatal(err)
	}
	loaded, err := NewPolicy(net, agentstest.Parse(t, file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for name, policy := range map[string]agents.Policy{"Greedy": c.actor.Greedy(), "NewPolicy": loaded} {
		actions, scores := make([]float32, 2), make([]float32, 4)
		if err := policy.Act(agentstest.BatchOf(2, 5, 1), actions); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]float32{1, 0}, actions); d != "" {
			t.Errorf("%s plays (-want +got):\n%s", name, d)
		}
		if err := policy.(agents.Scorer).Scores(agentstest.BatchOf(2, 5, 1), scores); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff([]float32{0, 2, 0, -2}, scores, approx); d != "" {
			t.Errorf("%s scores (-want +got):\n%s", name, d)
		}
	}
}

// TestNewActorRefuses: bounds of normalization out of their range, and a checkpoint with another.
func TestNewActorRefuses(t *testing.T) {
	bad := normalized()
	bad.ClipObs = 0
	env := agentstest.Env(2, 1)
	spec, err := policies.Defaults().ActorCritic(env.Obs, env.Act)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewActor(Settings{Algo: "stub", Env: env, Spec: spec, NewNetwork: agents.Given(agentstest.NewStub(2, prefersSecond)), Normalize: bad}); err == nil {
		t.Error("NewActor takes clip_obs 0")
	}
	net := agentstest.NewStub(2, prefersSecond)
	var file bytes.Buffer
	if err := collector(t, net, env.Act, normalized()).Save(&file); err != nil {
		t.Fatal(err)
	}
	if err := collector(t, net, env.Act, normalize.Normalization{}).Load(&file); err == nil {
		t.Error("a learner without normalization loads a checkpoint with it")
	}
}

// alternating is a teacher that takes action 0 at even steps of Timing and 1 at odd ones.
type alternating struct{}

func (alternating) Act(b *envs.Batch, actions []float32) error {
	for i := range actions {
		actions[i] = float32(int(math.Round(float64(10*b.Obs[i]))) % 2)
	}
	return nil
}

// TestWatchRecords: what a teacher does in Timing, whose observation after step k is k/10, whose
// mask forbids action 1 at even steps, and whose episodes are cut off after 3 steps.
func TestWatchRecords(t *testing.T) {
	const n = 2
	c := collector(t, agentstest.NewStub(2, prefersSecond), space.Discrete{N: 2}, normalize.Normalization{})
	v, _ := agentstest.NewVec(t, envcheck.Timing(100, 3), n)
	rec, err := c.actor.Watch(context.Background(), imitation.Demonstration{Envs: v, Teacher: alternating{}, Steps: 8, Epochs: 1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	twice := func(x ...float32) (y []float32) { // once for each environment
		for _, v := range x {
			y = append(y, v, v)
		}
		return y
	}
	if d := cmp.Diff(twice(0, 0.1, 0.2, 0), rec.Obs, approx); d != "" {
		t.Errorf("observations (-want +got):\n%s", d)
	}
	if d := cmp.Diff(twice(0, 1, 0, 0), rec.Action); d != "" {
		t.Errorf("actions (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]float64{1, 1, 2, 2, 3, 3, 1, 1}, rec.Reward); d != "" {
		t.Errorf("rewards (-want +got):\n%s", d)
	}
	even, odd := []bool{true, false, true, false}, []bool{true, true, true, true}
	var mask []bool
	for _, m := range [][]bool{even, odd, even, even} {
		mask = append(mask, m...)
	}
	if d := cmp.Diff(mask, rec.Mask); d != "" {
		t.Errorf("masks (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]bool{true, true, false, false, false, false, true, true}, rec.Begins); d != "" {
		t.Errorf("beginnings of episodes (-want +got):\n%s", d)
	}
}

// TestWatchNormalizes: of the four observations 0, 0.1, 0.2 and 0.3 of an episode cut off after
// step 3, all are normalized by the statistics of what was seen; the final one is not among them.
func TestWatchNormalizes(t *testing.T) {
	const n = 2
	c := collector(t, agentstest.NewStub(2, prefersSecond), space.Discrete{N: 2}, normalized())
	v, _ := agentstest.NewVec(t, envcheck.Timing(100, 3), n)
	rec, err := c.actor.Watch(context.Background(), imitation.Demonstration{Envs: v, Teacher: alternating{}, Steps: 6, Epochs: 1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	// Seen by both: 0, 0.1, 0.2 and the next episode's 0; mean 0.075, variance 0.006875.
	std := math.Sqrt(0.006875)
	for row, x := range []float64{0, 0, 0.1, 0.1, 0.2, 0.2} {
		if want := (x - 0.075) / std; math.Abs(float64(rec.Obs[row])-want) > 0.02 {
			t.Errorf("observation of row %d is %v, want %.3f", row, rec.Obs[row], want)
		}
	}
	if len(rec.Ends) != n {
		t.Fatalf("%d ends, want %d", len(rec.Ends), n)
	}
	for _, e := range rec.Ends {
		if want := (0.3 - 0.075) / std; math.Abs(float64(e.Obs[0])-want) > 0.05 {
			t.Errorf("final observation is %v, want %.3f", e.Obs[0], want)
		}
	}
	// Another Act begins with statistics of its environments' first observations, as at the start.
	if rec.Reward[0] == 1 {
		t.Error("rewards are not normalized")
	}
}
