package offline

import (
	"math"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs/space"
)

// TestNewDataRefuses: what a file of transitions may get wrong is an error, for actions of every kind, and no panic of the
// learner that samples it.
func TestNewDataRefuses(t *testing.T) {
	acts := map[string]space.Space{"discrete": space.Discrete{N: 2}, "multi_discrete": space.MultiDiscrete{NVec: []int{2, 3}}, "multi_binary": space.MultiBinary{N: 2}, "box": space.NewBox(-1, 1, 2)}
	for kind, act := range acts {
		env := agents.EnvInfo{ID: "toy/X-v0", Obs: space.NewBox(-1, 1, 2), Act: act, NumEnvs: 1}
		good := func() replay.Transitions {
			return replay.Transitions{
				Obs: make([]float32, 6), NextObs: make([]float32, 6), Action: make([]float32, 3*act.Size()), Reward: make([]float64, 3),
				Terminated: make([]bool, 3), Truncated: make([]bool, 3),
			}
		}
		if _, err := NewData("bc", good(), env); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		for name, tc := range map[string]struct {
			change func(r *replay.Transitions)
			want   string
			unless string // kind of actions for which it is no error
		}{
			"nothing":           {func(r *replay.Transitions) { *r = replay.Transitions{} }, "want", ""},
			"observations":      {func(r *replay.Transitions) { r.Obs = r.Obs[:5] }, "5", ""},
			"next observations": {func(r *replay.Transitions) { r.NextObs = r.NextObs[:4] }, "4", ""},
			"actions":           {func(r *replay.Transitions) { r.Action = r.Action[1:] }, "want", ""},
			"terminations":      {func(r *replay.Transitions) { r.Terminated = r.Terminated[:2] }, "2", ""},
			"truncations":       {func(r *replay.Transitions) { r.Truncated = nil }, "0", ""},
			"masks":             {func(r *replay.Transitions) { r.Mask = make([]bool, 5) }, "5 recorded masks", ""},
			"next masks":        {func(r *replay.Transitions) { r.NextMask = make([]bool, 1) }, "1 recorded masks", ""},
			"masked out":        {func(r *replay.Transitions) { r.Mask = make([]bool, 3*space.MaskSize(act)) }, "transition 0: action", "box"},
			"observation":       {func(r *replay.Transitions) { r.Obs[5] = float32(math.NaN()) }, "transition 2: the observation is NaN at index 1", ""},
			"next observation":  {func(r *replay.Transitions) { r.NextObs[0] = float32(math.Inf(1)) }, "observation is +Inf at index 0", ""},
			"action":            {func(r *replay.Transitions) { r.Action[act.Size()] = float32(math.NaN()) }, "transition 1", ""},
			"outside":           {func(r *replay.Transitions) { r.Action[2*act.Size()] = 2 }, "transition 2: action", "box"},
			"between":           {func(r *replay.Transitions) { r.Action[0] = 0.5 }, "transition 0: action", "box"},
			"reward":            {func(r *replay.Transitions) { r.Reward[1] = math.NaN() }, "reward NaN", ""},
		} {
			r := good()
			tc.change(&r)
			_, err := NewData("bc", r, env)
			if kind == tc.unless {
				if err != nil {
					t.Errorf("%s, %s: %v", kind, name, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s, %s: error %v, want one with %q", kind, name, err, tc.want)
			}
		}
	}
}
