package advantage

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/agents/trained"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

func smallOnline() Config {
	c, _ := OnlineDefaults()
	c.EnvKwargs = map[string]any{"nodes": 8, "containers": 60}
	c.Rounds, c.Episodes, c.Steps, c.Width = 2, 12, 50, 8
	return c
}

// TestOnlineIsDeterministic covers episodes of the index and the policy's own.
func TestOnlineIsDeterministic(t *testing.T) {
	c := smallOnline()
	checkCollect(t, c, nil)
	decisions, err := c.Collect(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	net, _, err := c.Fit(t.Context(), decisions)
	if err != nil {
		t.Fatal(err)
	}
	checkCollect(t, c, net)
}

// TestOwnEpisodes: rounds after the first are the policy's, which takes other nodes than the index: of equal seeds, episodes
// begin alike and go on differently.
func TestOwnEpisodes(t *testing.T) {
	c := smallOnline()
	first, err := c.Collect(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	net, _, err := c.Fit(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	own, err := c.Collect(t.Context(), 0, net)
	if err != nil {
		t.Fatal(err)
	}
	begins, differs := 0, 0
	for k := range c.Episodes {
		of := func(all []Decision) [][]float32 {
			var rows [][]float32
			for _, d := range all {
				if d.Episode == k {
					rows = append(rows, d.Nodes)
				}
			}
			return rows
		}
		a, b := of(first), of(own)
		if slices.Equal(a[0], b[0]) {
			begins++
		}
		if !slices.EqualFunc(a, b, slices.Equal) {
			differs++
		}
	}
	if begins != c.Episodes || differs < c.Episodes/2 {
		t.Errorf("%d of %d episodes begin alike, %d go on differently; want all, and half at least", begins, c.Episodes, differs)
	}
	second, err := c.Collect(t.Context(), 1, net)
	if err != nil {
		t.Fatal(err)
	}
	if second[0].Episode != c.Episodes || slices.Equal(second[0].Nodes, own[0].Nodes) {
		t.Errorf("the second round begins with episode %d, want %d, and another one", second[0].Episode, c.Episodes)
	}
}

// TestOnlinePolicy: the saved model takes the nodes that the player of own episodes does, the first node tried is that
// of the baseline index_tuned, and a network without gains takes those of index_ahead.
func TestOnlinePolicy(t *testing.T) {
	c := smallOnline()
	rounds := 0
	net, r, err := c.Train(t.Context(), func(round int, r Report) {
		if rounds++; round != rounds-1 || r.Decisions == 0 {
			t.Errorf("round %d has %d decisions", round, r.Decisions)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if rounds != 2 || r.Decisions < 1000 || r.Error <= 0 {
		t.Errorf("%d rounds, %+v; want 2 and decisions with an error", rounds, r)
	}
	model := open(t, &c, net)
	v, err := envs.Make(c.Env, 1, envs.VecOptions{Options: c.EnvKwargs, Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	teacher, err := envs.NewPolicies(v, "index_tuned", 0)
	if err != nil {
		t.Fatal(err)
	}
	ahead, err := envs.NewPolicies(v, "index_ahead", 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := v.Reset(t.Context(), envs.VecResetOptions{Seeds: []uint64{7}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.player(v, net)
	if err != nil {
		t.Fatal(err)
	}
	without, err := c.player(v, net)
	if err != nil {
		t.Fatal(err)
	}
	for _, param := range without.net.Params() {
		clear(param.Value)
	}
	action, usual := make([]float32, 1), make([]float32, 1)
	others := 0
	for step := range 60 {
		want, err := p.best(b.Obs, b.Mask)
		if err != nil {
			t.Fatal(err)
		}
		if err := model.Act(b.Obs, b.Mask, action); err != nil {
			t.Fatal(err)
		}
		if action[0] != float32(want) {
			t.Errorf("step %d: the model takes node %v, want %v", step, action[0], want)
		}
		if err := teacher.Act(t.Context(), usual); err != nil {
			t.Fatal(err)
		}
		if first := p.gains.Nodes(3, 0, nil)[0]; float32(first) != usual[0] {
			t.Errorf("step %d: node %d is first, want that of index_tuned, %v", step, first, usual[0])
		}
		if action[0] != usual[0] {
			others++
		}
		if err := ahead.Act(t.Context(), usual); err != nil {
			t.Fatal(err)
		}
		if got, err := without.best(b.Obs, b.Mask); err != nil || float32(got) != usual[0] {
			t.Errorf("step %d: without gains node %d, %v; want that of index_ahead, %v", step, got, err, usual[0])
		}
		if b, err = v.Step(t.Context(), action); err != nil {
			t.Fatal(err)
		}
	}
	if others == 0 {
		t.Error("the model took the nodes of index_tuned only")
	}
}

// open saves the policy of a network of gains as a model, and opens it.
func open(t *testing.T, c *Config, net *fused.Network) *trained.Policy {
	t.Helper()
	network, policy, info, err := c.Policy(net)
	if err != nil {
		t.Fatal(err)
	}
	cfg := ppo.Defaults()
	cfg.Network, cfg.TotalTimesteps = network, 1
	learner, err := ppo.New(cfg, info, agents.Given(policy), 0)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := learner.Save(&file); err != nil {
		t.Fatal(err)
	}
	f, err := models.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/model.safetensors"
	if err := models.WriteFile(path, f); err != nil {
		t.Fatal(err)
	}
	p, err := trained.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestOnlineRefuses what has no futures.
func TestOnlineRefuses(t *testing.T) {
	for _, tc := range []struct {
		env     string
		futures int
		horizon float64
	}{
		{"k8s/LRAPlacement-v0", 1, 0.3}, {"k8s/LRAOnline-v0", 0, 0.3}, {"k8s/LRAOnline-v0", 1, 0}, {"k8s/LRAOnline-v0", 1, math.NaN()},
	} {
		v, err := envs.Make(tc.env, 1, envs.VecOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (&Online{Horizon: tc.horizon}).Gains(v.Env(0).Task(), tc.futures); err == nil {
			t.Errorf("%+v: no error", tc)
		}
		v.Close()
	}
}
