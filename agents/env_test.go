package agents_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

func TestCheckpoint(t *testing.T) {
	spec := models.ActorCritic(2, 3, []int{4}, models.Tanh)
	obs, act := space.NewBox(0, float32(math.Inf(1)), 2), space.Discrete{N: 3}
	const obsText = `{"kind":"box","shape":[2],"dtype":"float32","low":[0],"high":["inf"]}`
	const actText = `{"kind":"discrete","dtype":"int64","n":[3]}`
	for _, tc := range []struct {
		name   string
		kwargs map[string]any
		want   json.RawMessage
	}{
		{"no options", nil, nil},
		{"empty options", map[string]any{}, json.RawMessage(`{}`)},
		{"options by name", map[string]any{"windows": 4, "data": "x"}, json.RawMessage(`{"data":"x","windows":4}`)},
	} {
		e := agents.EnvInfo{ID: "k8s/Toy-v0", Kwargs: tc.kwargs, Obs: obs, Act: act, NumEnvs: 8}
		got, err := e.Checkpoint("ppo", spec)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		want := models.Checkpoint{
			Algo: "ppo", Env: "k8s/Toy-v0", EnvKwargs: tc.want,
			ObservationSpace: obsText, ActionSpace: actText, Spec: spec,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if err := got.Match(want); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestCheckpointOfOptionsThatAreNoJSON(t *testing.T) {
	e := agents.EnvInfo{ID: "k8s/Toy-v0", Kwargs: map[string]any{"f": math.NaN()}, Obs: space.NewBox(0, 1, 1), Act: space.Discrete{N: 2}}
	if _, err := e.Checkpoint("ppo", models.Spec{}); err == nil || !strings.Contains(err.Error(), "k8s/Toy-v0") {
		t.Errorf("error %v, want one that names k8s/Toy-v0", err)
	}
}
