package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/server/wire"
)

func init() {
	rule := func(f func(p *envcheck.Planned, first bool, action []float32) error) func(envs.Task) (envs.Policy, error) {
		return func(task envs.Task) (envs.Policy, error) {
			return func(_ context.Context, _ *cluster.State, first bool, action []float32) error {
				return f(task.(*envcheck.Planned), first, action)
			}, nil
		}
	}
	envs.Register(&envs.Spec{
		ID: "test/Planned-v0",
		Open: func(map[string]any) (envs.Maker, error) {
			return func() (envs.Task, error) { return &envcheck.Planned{}, nil }, nil
		},
		Baselines: []envs.Baseline{
			{Name: "planner", New: rule(func(p *envcheck.Planned, _ bool, action []float32) error {
				pay := 100 + float64(p.Step)
				action[0], p.Plan = 1, &pay
				return nil
			})},
			{Name: "two", New: rule(func(_ *envcheck.Planned, _ bool, action []float32) error { action[0] = 2; return nil })},
			{Name: "lost", New: rule(func(*envcheck.Planned, bool, []float32) error { return errors.New("no way from here") })},
			{Name: "tires", New: rule(func(p *envcheck.Planned, _ bool, action []float32) error {
				if p.Step == 2 {
					return errors.New("no further")
				}
				action[0] = 2
				return nil
			})},
			{Name: "panics", New: rule(func(*envcheck.Planned, bool, []float32) error { panic("a secret of the server") })},
			{Name: "picky", New: func(envs.Task) (envs.Policy, error) { return nil, errors.New("not for these options") }},
			{Name: "slow", New: rule(func(_ *envcheck.Planned, _ bool, action []float32) error {
				time.Sleep(2 * time.Millisecond)
				action[0] = 0
				return nil
			})},
		},
	})
}

// ruleParameters are those of the baseline of test/Parametric-v0.
type ruleParameters struct {
	First float64 `opt:"first_of_the_parameters" doc:"nothing"`
	Then  float64 `opt:"second_of_the_parameters" doc:"nothing"`
	Last  float64 `opt:"last" doc:"the action less 1"`
}

func init() {
	envs.Register(&envs.Spec{
		ID: "test/Parametric-v0",
		Open: func(map[string]any) (envs.Maker, error) {
			return func() (envs.Task, error) { return &envcheck.Planned{}, nil }, nil
		},
		Baselines: []envs.Baseline{envs.Parametric(envs.Baseline{Name: "rule"}, ruleParameters{}, func(p ruleParameters) func(envs.Task) (envs.Policy, error) {
			return func(envs.Task) (envs.Policy, error) {
				return func(_ context.Context, _ *cluster.State, _ bool, action []float32) error {
					action[0] = float32(p.Last + 1)
					return nil
				}, nil
			}
		})},
	})
}

// TestLongNameOfBaseline: a name of more than 64 bytes keeps all of its parameters, to the last digit.
func TestLongNameOfBaseline(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		hello12,
		{m{"t": "make", "id": 2, "env": "test/Parametric-v0"}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1, "seed": 1}, m{"t": "reset.ok"}},
	})
	const name = "rule:first_of_the_parameters=0.25,second_of_the_parameters=1.125,last=1"
	if got := ints(handle(t, s, m{"t": "policy", "id": 4, "eid": 1, "name": name})["a"]); !cmp.Equal(got, []int64{2}) {
		t.Errorf("policy %s takes action %v, want 2", name, got)
	}
	play(t, s, []line{
		{m{"t": "step", "id": 5, "eid": 1, "policy": name}, m{"t": "step.ok"}},
		{m{"t": "rollout", "id": 6, "eid": 1, "name": name, "steps": 1}, m{"t": "rollout.ok"}},
	})
}

// TestManyParameters: names with parameters are without number, so a vector keeps policies for 64 of them, and for each
// baseline and random. It drops those that have no memory of a running episode, and refuses more than that.
func TestManyParameters(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		hello12,
		{m{"t": "make", "id": 2, "env": "test/Parametric-v0"}, m{"eid": 1}},
	})
	const most = 64 + 2
	id := 2
	ask := func(k int) any {
		id++
		return handle(t, s, m{"t": "policy", "id": id, "eid": 1, "name": fmt.Sprintf("rule:last=1,first_of_the_parameters=%d", k)})["reason"]
	}
	for round := range 3 {
		id++
		play(t, s, []line{{m{"t": "reset", "id": id, "eid": 1, "seed": 1}, m{"t": "reset.ok"}}})
		for k := range most {
			if got := ask(1000*round + k); got != nil {
				t.Fatalf("episode %d, baseline %d: %v", round, k, got)
			}
		}
		if got := ask(1000*round + most); got != string(wire.TooMuchMemory) {
			t.Errorf("episode %d, one more baseline: %v, want %s", round, got, wire.TooMuchMemory)
		}
		if got := ask(1000 * round); got != nil {
			t.Errorf("episode %d, the first baseline again: %v", round, got)
		}
	}
}

var hello12 = line{m{"t": "hello", "id": 1, "ver": []int{1, 2}}, m{"t": "welcome", "id": 1, "ver": []any{1, 2}, "caps": []any{"baseline", "rollout", "snapshot"}}}

func floats(v any) []float64 {
	b := payload(v)
	out := make([]float64, len(b)/8)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return out
}

func ints(v any) []int64 {
	b := payload(v)
	out := make([]int64, len(b)/8)
	for i := range out {
		out[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return out
}

func TestPolicyRefusals(t *testing.T) {
	play(t, newSession(t, newConfig()), []line{
		hello12,
		{m{"t": "policy", "id": 2}, refused(2, wire.BadField)},
		{m{"t": "policy", "id": 3, "eid": 1, "name": "two"}, refused(3, wire.UnknownEID)},
		{m{"t": "make", "id": 4, "env": "test/Planned-v0", "n": 2}, m{"eid": 1}},
		{m{"t": "policy", "id": 5, "eid": 1, "name": "two"}, refused(5, wire.ResetNeeded)},
		{m{"t": "reset", "id": 6, "eid": 1}, m{"t": "reset.ok"}},
		{m{"t": "policy", "id": 7, "eid": 1}, refused(7, wire.BadField)},
		{m{"t": "policy", "id": 8, "eid": 1, "name": 5}, refused(8, wire.BadField)},
		{m{"t": "policy", "id": 9, "eid": 1, "name": "two", "seed": -1}, refused(9, wire.BadField)},
		{m{"t": "policy", "id": 10, "eid": 1, "name": "best"}, refused(10, wire.UnknownBaseline)},
		{m{"t": "policy", "id": 11, "eid": 1, "name": "picky"}, refused(11, wire.BaselineFails)},
		{m{"t": "policy", "id": 12, "eid": 1, "name": "lost"}, refused(12, wire.BaselineFails)},
		{m{"t": "policy", "id": 13, "eid": 1, "name": "panics"}, refused(13, wire.EnvFailed)},
		{m{"t": "policy", "id": 14, "eid": 1, "name": "slow", "dl": 0}, refused(14, wire.Deadline)},
		{m{"t": "step", "id": 15, "eid": 1, "a": []int{2, 2}, "policy": "two"}, refused(15, wire.BadField)},
		{m{"t": "step", "id": 16, "eid": 1, "policy": 2}, refused(16, wire.BadField)},
		{m{"t": "step", "id": 17, "eid": 1, "policy": ""}, refused(17, wire.BadField)},
		{m{"t": "step", "id": 18, "eid": 1}, refused(18, wire.BadField)},
		{m{"t": "step", "id": 19, "eid": 1, "policy": "best"}, refused(19, wire.UnknownBaseline)},
		{m{"t": "step", "id": 20, "eid": 1, "policy": "picky"}, refused(20, wire.BaselineFails)},
		{m{"t": "step", "id": 21, "eid": 1, "policy": "lost"}, refused(21, wire.BaselineFails)},
		{m{"t": "step", "id": 22, "eid": 1, "policy": "slow", "dl": 0}, refused(22, wire.Deadline)},
		{m{"t": "step", "id": 23, "eid": 1, "policy": "random", "seed": -1}, refused(23, wire.BadField)},
		{m{"t": "stats", "id": 24, "eid": 1}, m{"steps": 0}}, // what was refused stepped nothing
		{m{"t": "step", "id": 25, "eid": 1, "policy": "two"}, m{"t": "step.ok"}},
	})
}

// A session of version 1.0 has neither the message nor the field of step. One of 1.1 had both in
// another form, so that they are refused there.
func TestPolicyIsOfMinor2(t *testing.T) {
	for minor, caps := range [][]any{{}, {"rollout", "snapshot"}} {
		last := line{m{"t": "step", "id": 5, "eid": 1, "a": 2, "policy": "two"}, m{"t": "step.ok"}}
		if minor == 1 {
			last.want = refused(5, wire.IsReserved)
		}
		play(t, newSession(t, newConfig()), []line{
			{m{"t": "hello", "id": 1, "ver": []int{1, minor}}, m{"ver": []any{1, minor}, "caps": caps}},
			{m{"t": "make", "id": 2, "env": "test/Planned-v0"}, m{"eid": 1}},
			{m{"t": "reset", "id": 3, "eid": 1}, m{"t": "reset.ok"}},
			{m{"t": "policy", "id": 4, "eid": 1, "name": "two"}, refused(4, wire.IsReserved)},
			last,
		})
	}
}

// The planner takes action 1 and plans a reward of 100 plus the number of steps so far.
func TestStepByBaseline(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		hello12,
		{m{"t": "make", "id": 2, "env": "test/Planned-v0", "n": 2}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1}, m{"t": "reset.ok"}},
	})
	id := 3
	ask := func(request m) m {
		t.Helper()
		id++
		request["id"], request["eid"] = id, 1
		return handle(t, s, request)
	}
	rewards := func(step m, want ...float64) {
		t.Helper()
		step["t"] = "step"
		if got := ask(step); got["t"] != "step.ok" || !cmp.Equal(floats(got["r"]), want) {
			t.Errorf("step: %v, want rewards %v", got, want)
		}
	}
	planner := func() {
		t.Helper()
		got := ask(m{"t": "policy", "name": "planner"})
		if got["t"] != "policy.ok" || !cmp.Equal(ints(got["a"]), []int64{1, 1}) {
			t.Errorf("policy: %v, want actions [1 1]", got)
		}
		if _, ok := got["none"]; ok {
			t.Errorf("none %v, want none", got["none"])
		}
	}
	planner()
	rewards(m{"a": []int{1, 1}}, 1, 1) // its actions are actions like any others
	planner()
	if got := ask(m{"t": "policy", "name": "two"}); !cmp.Equal(ints(got["a"]), []int64{2, 2}) {
		t.Errorf("policy: %v, want actions [2 2]", got)
	}
	rewards(m{"policy": "planner"}, 101, 101)
	rewards(m{"policy": "planner"}, 102, 102)       // nobody has asked for its actions
	got := ask(m{"t": "policy", "name": "planner"}) // the next step resets
	if !cmp.Equal(payload(got["none"]), []byte{1, 1}) || !cmp.Equal(ints(got["a"]), []int64{0, 0}) {
		t.Errorf("policy before an autoreset: %v, want none", got)
	}
	rewards(m{"policy": "planner"}, 0, 0)
	rewards(m{"policy": "two"}, 2, 2)
}

// CartPole's rule "lean" pushes to the right, 1, where the pole leans to it: its third number,
// by the environment's README.
func TestPolicyOfCartPole(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{hello12, {m{"t": "make", "id": 2, "env": "classic/CartPole-v1", "n": 8}, m{"eid": 1}}})
	got := handle(t, s, m{"t": "reset", "id": 3, "eid": 1, "seed": 1})
	for id := 4; id < 80; id += 2 {
		obs := payload(got["obs"])
		want := make([]int64, 8)
		for i := range want {
			if math.Float32frombits(binary.LittleEndian.Uint32(obs[16*i+8:])) > 0 {
				want[i] = 1
			}
		}
		advice := handle(t, s, m{"t": "policy", "id": id, "eid": 1, "name": "lean"})
		none := make([]byte, 8)
		if advice["none"] != nil {
			none = payload(advice["none"])
		}
		actions := ints(advice["a"])
		for i, a := range actions {
			if none[i] == 0 && a != want[i] {
				t.Fatalf("request %d: actions %v, want %v where %v is 0", id, actions, want, none)
			}
		}
		got = handle(t, s, m{"t": "step", "id": id + 1, "eid": 1, "a": actions})
	}
}

// Random actions are drawn by the seed, and by one stream from request to request.
func TestPolicyRandom(t *testing.T) {
	draws := func(seed any) (actions []int64) {
		s := newSession(t, newConfig())
		play(t, s, []line{
			hello12,
			{m{"t": "make", "id": 2, "env": "test/Planned-v0", "n": 20, "max_episode_steps": 100}, m{"eid": 1}},
			{m{"t": "reset", "id": 3, "eid": 1}, m{"t": "reset.ok"}},
		})
		first := ints(handle(t, s, m{"t": "policy", "id": 4, "eid": 1, "name": "random", "seed": seed})["a"])
		again := ints(handle(t, s, m{"t": "policy", "id": 5, "eid": 1, "name": "random"})["a"])
		if !cmp.Equal(first, again) {
			t.Errorf("the same moment: %v, then %v", first, again)
		}
		handle(t, s, m{"t": "step", "id": 6, "eid": 1, "policy": "random"})
		return append(first, ints(handle(t, s, m{"t": "policy", "id": 7, "eid": 1, "name": "random"})["a"])...)
	}
	a, b, c := draws(nil), draws(0), draws(1)
	if !cmp.Equal(a, b) || cmp.Equal(a, c) || cmp.Equal(a[:20], a[20:]) {
		t.Errorf("without a seed %v, by 0 %v, by 1 %v; want the first two equal and the stream to continue", a, b, c)
	}
}

// Episodes of three steps by the planner, which pays 100, 101 and 102, in two environments:
// hand-worked. In NEXT_STEP every fourth step resets.
func TestRollout(t *testing.T) {
	cfg := newConfig()
	cfg.Limits.Rollout = 40
	s := newSession(t, cfg)
	play(t, s, []line{
		hello12,
		{m{"t": "make", "id": 2, "env": "test/Planned-v0", "n": 2}, m{"eid": 1}},
		{m{"t": "rollout", "id": 3, "eid": 1, "name": "planner", "steps": 1}, refused(3, wire.ResetNeeded)},
		{m{"t": "reset", "id": 4, "eid": 1}, m{"t": "reset.ok"}},
		{m{"t": "rollout", "id": 5, "eid": 1, "name": "planner"}, refused(5, wire.BadField)},
		{m{"t": "rollout", "id": 6, "eid": 1, "name": "planner", "steps": 1, "episodes": 1}, refused(6, wire.BadField)},
		{m{"t": "rollout", "id": 7, "eid": 1, "name": "planner", "steps": 0}, refused(7, wire.BadField)},
		{m{"t": "rollout", "id": 8, "eid": 1, "name": "planner", "steps": 21}, refused(8, wire.TooLarge)},
		{m{"t": "rollout", "id": 9, "eid": 1, "name": "planner", "steps": uint64(1<<64 - 1)}, refused(9, wire.TooLarge)},
		{m{"t": "rollout", "id": 10, "eid": 1, "name": "planner", "steps": 1, "arrays": 1}, refused(10, wire.BadField)},
		{m{"t": "rollout", "id": 11, "eid": 1, "name": "best", "steps": 1}, refused(11, wire.UnknownBaseline)},
		{m{"t": "rollout", "id": 12, "eid": 1, "name": "lost", "steps": 1}, refused(12, wire.BaselineFails)},
		{m{"t": "stats", "id": 13, "eid": 1}, m{"steps": 0}},
	})
	got := handle(t, s, m{"t": "rollout", "id": 14, "eid": 1, "name": "planner", "steps": 5, "arrays": true})
	if got["t"] != "rollout.ok" || norm(got["steps"]) != int64(5) || got["cut"] != nil {
		t.Fatalf("rollout: %v, want 5 steps", got)
	}
	eps, run, traj := got["eps"].(m), got["run"].(m), got["traj"].(m)
	for name, tc := range map[string][2]any{
		"r":          {floats(got["r"]), []float64{100, 100}}, // the first step of the second episode
		"eps.r":      {floats(eps["r"]), []float64{303, 303}},
		"eps.l":      {ints(eps["l"]), []int64{3, 3}},
		"eps.at":     {payload(eps["at"]), []byte{3, 0, 0, 0, 3, 0, 0, 0}},
		"eps.idx":    {payload(eps["idx"]), []byte{0, 0, 0, 0, 1, 0, 0, 0}},
		"eps.obs":    {payload(eps["obs"]), []byte{0, 0, 0x40, 0x40, 0, 0, 0x40, 0x40}}, // 3.0
		"run.r":      {floats(run["r"]), []float64{100, 100}},
		"run.l":      {ints(run["l"]), []int64{1, 1}},
		"traj.r":     {floats(traj["r"]), []float64{100, 100, 101, 101, 102, 102, 0, 0, 100, 100}},
		"traj.a":     {ints(traj["a"]), []int64{1, 1, 1, 1, 1, 1, 0, 0, 1, 1}},
		"traj.te":    {payload(traj["te"]), []byte{0, 0, 0, 0, 1, 1, 0, 0, 0, 0}},
		"traj.none":  {payload(traj["none"]), []byte{0, 0, 0, 0, 0, 0, 1, 1, 0, 0}},
		"traj.first": {payload(traj["obs"])[:8], make([]byte, 8)},
	} {
		if diff := cmp.Diff(tc[1], tc[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	got = handle(t, s, m{"t": "rollout", "id": 15, "eid": 1, "name": "two", "episodes": 100})
	if norm(got["steps"]) != int64(20) || got["cut"] != true || got["traj"] != nil {
		t.Errorf("rollout of too many episodes: %v, want it cut after 20 steps", got)
	}
	// Two of that episode are left, for 4; then every fourth step ends one. The 18th ends the fifth.
	if r := floats(got["eps"].(m)["r"]); !cmp.Equal(r, []float64{104, 104, 6, 6, 6, 6, 6, 6, 6, 6}) {
		t.Errorf("returns %v", r)
	}
	play(t, s, []line{
		{m{"t": "stats", "id": 16, "eid": 1}, m{"steps": 50, "episodes": 12}},
		{m{"t": "rollout", "id": 17, "eid": 1, "name": "slow", "steps": 20, "dl": 5}, refused(17, wire.Deadline)},
	})
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if got := unpack(t, answer(ended, s, pack(t, m{"t": "rollout", "id": 18, "eid": 1, "name": "two", "steps": 3}))); got["reason"] != string(wire.WasCancelled) {
		t.Errorf("a rollout whose connection has ended: %v, want %s", got, wire.WasCancelled)
	}
}

// The reply has the steps before the one at which a baseline finds no action, so that a client knows
// where its environments stand.
func TestRolloutUntilTheBaselineFails(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		hello12,
		{m{"t": "make", "id": 2, "env": "test/Planned-v0", "n": 2}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1}, m{"t": "reset.ok"}},
	})
	got := handle(t, s, m{"t": "rollout", "id": 4, "eid": 1, "name": "tires", "episodes": 1, "arrays": true})
	if got["t"] != "rollout.ok" || norm(got["steps"]) != int64(2) || got["cut"] != true {
		t.Fatalf("rollout: %v, want it cut after 2 steps", got)
	}
	if r, sums := floats(got["traj"].(m)["r"]), floats(got["run"].(m)["r"]); !cmp.Equal(r, []float64{2, 2, 2, 2}) || !cmp.Equal(sums, []float64{4, 4}) {
		t.Errorf("rewards %v and their sums %v, want 2 each time and 4", r, sums)
	}
	play(t, s, []line{
		{m{"t": "rollout", "id": 5, "eid": 1, "name": "tires", "steps": 1}, refused(5, wire.BaselineFails)},
		{m{"t": "stats", "id": 6, "eid": 1}, m{"steps": 4}},
		{m{"t": "rollout", "id": 7, "eid": 1, "name": "two", "steps": 1}, m{"t": "rollout.ok"}},
	})
}

// The memory of a large reply is not kept for the small ones that follow.
func TestLargeRolloutIsNotKept(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		hello12,
		{m{"t": "make", "id": 2, "env": "test/Planned-v0", "n": 100}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1}, m{"t": "reset.ok"}},
	})
	if n := len(answer(ctx, s, pack(t, m{"t": "rollout", "id": 4, "eid": 1, "name": "two", "steps": 1000, "arrays": true}))); n < 2*largeReply {
		t.Fatalf("a rollout of %d bytes, want a large one", n)
	}
	play(t, s, []line{{m{"t": "stats", "id": 5, "eid": 1}, m{"steps": 100_000}}})
	if n := cap(s.out.Bytes()); n > largeReply {
		t.Errorf("%d bytes are kept", n)
	}
}
