package board_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/server/guard"
)

// scorer rates the actions 0, 1, 2, … with 0, -1, -2, … as logits.
type scorer struct{}

func (scorer) Act(b *envs.Batch, actions []float32) error { actions[0] = 0; return nil }

func (scorer) Scores(b *envs.Batch, scores []float32) error {
	for i := range scores {
		scores[i] = -float32(i)
	}
	return nil
}

func (scorer) Values(b *envs.Batch, values []float32) error { values[0] = 1.5; return nil }

func openBaseline(ctx context.Context, v *envs.Vec, name string, seed uint64) (agents.Policy, func(), error) {
	if name == "scorer" {
		return scorer{}, func() {}, nil
	}
	p, err := baseline.NewContext(ctx, v, name, seed)
	return p, func() {}, err
}

// writeLogs writes what two trainings of different seeds log, and their comparison.
func writeLogs(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	files := map[string]string{
		"ppo/k8s-PodBalance-v0_1/comparison.csv": "policy,mean cost,95 % interval,return\n\"ppo, 2 seeds\",-7.25,\"[-7.50, -7.00]\",-7.25\n" +
			"Greedy,-6.50,\"[-6.75, -6.25]\",-6.50\nWorse,-9.50,\"[-9.75, -9.25]\",-9.50\nExact (clairvoyant),-6.00,\"[-6.25, -5.75]\",-6.00\n",
	}
	for seed := range 2 {
		dir := fmt.Sprintf("ppo/k8s-PodBalance-v0_1/seed_%d/", seed+1)
		files[dir+"progress.csv"] = fmt.Sprintf("time/total_timesteps,time/fps,eval/mean_reward\n100,5,\n200,6,%d\n300,7,%d\n", -9-seed, -8+seed)
		files[dir+"evaluations.csv"] = "timesteps,mean\n200,-9\n300,nan\n"
		files[dir+"config.yml"] = "learning_rate: 0.001\nn_steps: 128\n"
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		envstest.Write(t, path, text)
	}
	return folder
}

// call sends a request and decodes the reply into to, unless an error is wanted.
func call(t *testing.T, page, method, path string, body, to any) int {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(page, "/")+path, r)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if to != nil {
		if resp.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(resp.Body)
			t.Fatalf("%s %s: %s: %s", method, path, resp.Status, text)
		}
		if err := json.NewDecoder(resp.Body).Decode(to); err != nil {
			t.Fatal(err)
		}
	}
	return resp.StatusCode
}

// TestRuns: folders of trainings and of comparisons are listed, numbers that are none are null, and a seed's
// comparison is the one above.
func TestRuns(t *testing.T) {
	page := serve(t, board.Config{Logs: writeLogs(t)})
	var runs []board.Run
	call(t, page, "GET", "/api/runs", nil, &runs)
	got := map[string][2]bool{}
	for _, r := range runs {
		got[r.ID] = [2]bool{r.Logged, r.Compared}
	}
	base := "ppo/k8s-PodBalance-v0_1"
	if diff := cmp.Diff(map[string][2]bool{base: {false, true}, base + "/seed_1": {true, false}, base + "/seed_2": {true, false}}, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	var run board.RunData
	call(t, page, "GET", "/api/runs/"+base+"/seed_2", nil, &run)
	v := func(x float64) *float64 { return &x }
	want := board.RunData{
		Progress:    board.Table{Columns: []string{"time/total_timesteps", "time/fps", "eval/mean_reward"}, Values: [][]*float64{{v(100), v(200), v(300)}, {v(5), v(6), v(7)}, {nil, v(-10), v(-7)}}},
		Evaluations: board.Table{Columns: []string{"timesteps", "mean"}, Values: [][]*float64{{v(200), v(300)}, {v(-9), nil}}},
		Config:      map[string]any{"learning_rate": 0.001, "n_steps": 128.0},
	}
	if len(run.Comparison) != 5 || run.Comparison[2][0] != "Greedy" {
		t.Errorf("the comparison is %q, want that of the folder above", run.Comparison)
	}
	run.Comparison = nil
	if diff := cmp.Diff(want, run); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	for _, id := range []string{"nothing", "..%2f..%2fetc"} {
		if code := call(t, page, "GET", "/api/runs/"+id, nil, nil); code != http.StatusNotFound {
			t.Errorf("run %s: status %d, want 404", id, code)
		}
	}
}

// TestEpisode: an episode on the page is the one that the policy plays by itself, every step can be looked at
// again, and a fork continues from its step as if the other policy had taken over there.
func TestEpisode(t *testing.T) {
	page := serve(t, board.Config{})
	opts := map[string]any{"nodes": 4}
	ask := map[string]any{"env": "k8s/PodBalance-v0", "seed": 7, "policy": "RoundRobin", "options": opts}
	var ep board.EpisodeInfo
	call(t, page, "POST", "/api/episodes", ask, &ep)
	call(t, page, "POST", "/api/episodes/"+ep.ID+"/step", map[string]any{"steps": 6}, &ep)
	want, states := playAlone(t, opts, 7, 6, "RoundRobin", 6)
	if diff := cmp.Diff(want, ep.Returns); diff != "" {
		t.Errorf("returns (-played alone +on the page):\n%s", diff)
	}
	for _, k := range []int{2, 0, 6, 3} {
		var why board.Explanation
		call(t, page, "GET", fmt.Sprintf("/api/episodes/%s/why?step=%d", ep.ID, k), nil, &why)
		if why.Frame.Step != k || !cmp.Equal(why.Frame.Pods, states[k]) {
			t.Errorf("step %d shows step %d with pods %v, want %v", k, why.Frame.Step, why.Frame.Pods, states[k])
		}
		if (why.Taken == nil) != (k == 6) || len(why.Rows) != 4 {
			t.Errorf("step %d: taken %v, %d rows; want the action of each step but the last, and 4 rows", k, why.Taken, len(why.Rows))
		}
	}
	var fork board.EpisodeInfo
	call(t, page, "POST", "/api/episodes/"+ep.ID+"/fork", map[string]any{"step": 3, "policy": "First"}, &fork)
	call(t, page, "POST", "/api/episodes/"+fork.ID+"/step", map[string]any{"steps": 2}, &fork)
	want, _ = playAlone(t, opts, 7, 3, "First", 5)
	if diff := cmp.Diff(want, fork.Returns); diff != "" {
		t.Errorf("returns of the fork (-played alone +on the page):\n%s", diff)
	}
	if cmp.Equal(fork.Returns, ep.Returns[:5]) {
		t.Error("the fork plays as the episode did")
	}
}

// TestFamilies: each family of environments shows something of its own beside the return: a line for each task of a gang
// with the slowest marked, usage and requests over time, nodes with their applications.
func TestFamilies(t *testing.T) {
	page := serve(t, board.Config{})
	for env, policy := range map[string]string{"k8s/GangWindow-v0": "static_2", "k8s/VerticalPodAutoscaler-v0": "upstream", "k8s/LRAPlacement-v0": "greedy", "classic/CartPole-v1": "random"} {
		var ep board.EpisodeInfo
		call(t, page, "POST", "/api/episodes", map[string]any{"env": env, "policy": policy}, &ep)
		call(t, page, "POST", "/api/episodes/"+ep.ID+"/step", map[string]any{"steps": 3}, &ep)
		f := ep.Frame
		switch env {
		case "k8s/GangWindow-v0":
			if strings.Count(f.Text, "* ") != 1 || !strings.Contains(f.Text, "step ") {
				t.Errorf("%s: text %q, want the slowest of the tasks marked", env, f.Text)
			}
			// Eight tasks in three supersteps, and a re-planning of 15 s before the last.
			if len(f.Spans) != 4*8 || f.Spans[16].Kind != "re-plan" || math.Abs(f.Spans[16].To-f.Spans[16].From-15) > 1e-9 {
				t.Errorf("%s: spans %+v", env, f.Spans)
			}
			var why board.Explanation
			call(t, page, "GET", "/api/episodes/"+ep.ID+"/why?step=1", nil, &why)
			if got := why.Frame.Spans; len(got) != 8 || got[0] != f.Spans[0] {
				t.Errorf("%s: spans at step 1: %+v, want the first eight", env, got)
			}
		case "k8s/VerticalPodAutoscaler-v0":
			if f.Chart == nil || len(f.Chart.X) != 3 || len(f.Chart.Panels) != 2 || f.Chart.Panels[0].Lines[0].Name != "usage" {
				t.Errorf("%s: chart %+v, want usage over three steps", env, f.Chart)
			}
		case "k8s/LRAPlacement-v0":
			if len(ep.Nodes) != 81 || len(f.Grids) != 2 || len(f.Grids[1].Rows) != 81 {
				t.Fatalf("%s: %d nodes, grids %+v", env, len(ep.Nodes), f.Grids)
			}
			placed, empty := 0.0, 0
			for _, row := range f.Grids[1].Values {
				for _, v := range row[:7] {
					placed += *v
				}
				if row[8] == nil {
					empty++
				}
			}
			if placed != 3 || empty == 0 {
				t.Errorf("%s: %v containers on nodes, %d without any; want 3, and most", env, placed, empty)
			}
		default:
			if f.Text == "" || len(ep.Nodes) != 0 {
				t.Errorf("%s: %d nodes, text %q", env, len(ep.Nodes), f.Text)
			}
		}
	}
}

// TestLookBackFollowsPlans: planners do what no action says. Looking back, asking others in between and forking show what
// was played.
func TestLookBackFollowsPlans(t *testing.T) {
	page := serve(t, board.Config{})
	for _, tc := range [][3]string{
		{"k8s/GangWindow-v0", "dynamic_mpc_tuned", "random"}, {"k8s/GangWindow-v0", "static_2", "oracle_per_step_exact_minmax"}, {"k8s/GangForecast-v0", "dynamic_mpc_tuned", "random"},
		{"k8s/VerticalPodAutoscalerDiscrete-v0", "upstream_exact", "random"}, {"k8s/GPUPodScheduling-v1", "FGD", "random"},
	} {
		env, policy := tc[0], tc[1]
		var ep board.EpisodeInfo
		call(t, page, "POST", "/api/episodes", map[string]any{"env": env, "policy": policy}, &ep)
		var played []*board.Frame
		for range 3 {
			ep.Frame = nil // a new one
			call(t, page, "POST", "/api/episodes/"+ep.ID+"/step", map[string]any{"steps": 20}, &ep)
			played = append(played, ep.Frame)
		}
		for _, i := range []int{1, 0, 2} {
			var why board.Explanation
			call(t, page, "GET", fmt.Sprintf("/api/episodes/%s/why?step=%d&policies=%s", ep.ID, played[i].Step, tc[2]), nil, &why)
			if diff := cmp.Diff(played[i], why.Frame); diff != "" {
				t.Errorf("%s at step %d (-played +looked at):\n%s", env, played[i].Step, diff)
			}
		}
		v := envstest.Open(t, env, 1, envs.VecOptions{Autoreset: envs.Disabled})
		b := envstest.Reset(t, v, 0)
		p, err := envs.NewPolicies(v, policy, 0)
		for i := 0; i < 60 && err == nil; i++ {
			b, err = p.Step(t.Context())
		}
		if err != nil || math.Abs(b.EpisodeReturn[0]-ep.Frame.Return) > 1e-9 {
			t.Errorf("%s: a return of %v, want %v, %v", env, ep.Frame.Return, b.EpisodeReturn[0], err)
		}
		var forked board.EpisodeInfo
		call(t, page, "POST", "/api/episodes/"+ep.ID+"/fork", map[string]any{"step": 40, "policy": "random"}, &forked)
		if diff := cmp.Diff(played[1], forked.Frame); diff != "" {
			t.Errorf("%s forked at step 40 (-played +forked):\n%s", env, diff)
		}
	}
}

// TestPodsOfNode: of the pods that First binds to the first node, those that the reset of the cluster removed at its
// filling level have ended, and the others run. With 3 nodes of 64 CPU the cluster is full with 20 % of 192 pods.
func TestPodsOfNode(t *testing.T) {
	page := serve(t, board.Config{})
	var ep board.EpisodeInfo
	call(t, page, "POST", "/api/episodes", map[string]any{"env": "k8s/PodBalance-v0", "policy": "First", "options": map[string]any{"nodes": 3}}, &ep)
	call(t, page, "POST", "/api/episodes/"+ep.ID+"/step", map[string]any{"steps": 45}, &ep)
	var why, other board.Explanation
	call(t, page, "GET", "/api/episodes/"+ep.ID+"/why?node=0", nil, &why)
	call(t, page, "GET", "/api/episodes/"+ep.ID+"/why?node=2", nil, &other)
	run, ended := int32(0), 0
	for _, p := range why.Pods {
		switch {
		case p.Phase == "Running" && p.Ended == nil:
			run++
		case p.Ended != nil && *p.Ended >= p.Started:
			ended++
		}
		if p.MilliCPU != 1000 || p.Memory != 2<<30 || p.GPUs != 0 {
			t.Errorf("pod %+v, want 1 CPU and 2 Gi", p)
		}
	}
	if run != why.Frame.Pods[0] || int(run)+ended != 45 || len(other.Pods) != 0 {
		t.Errorf("%d run and %d have ended, want %d and the rest of 45; on the last node %d, want none", run, ended, why.Frame.Pods[0], len(other.Pods))
	}
}

// TestVisitorsLeave: a request whose visitor leaves while it is answered changes nothing that others see later: steps
// are whole or not made, and a later look shows the episode as it was played.
func TestVisitorsLeave(t *testing.T) {
	s := board.New(board.Config{Open: openBaseline, AllowControl: true})
	defer s.Close()
	ask := func(ctx context.Context, method, path, body string, to any) int {
		t.Helper()
		r := httptest.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if to != nil {
			if err := json.Unmarshal(w.Body.Bytes(), to); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
		return w.Code
	}
	var ep board.EpisodeInfo
	ask(t.Context(), "POST", "/api/episodes", `{"env": "k8s/PodBalance-v0", "seed": 7, "policy": "RoundRobin", "options": {"nodes": 4}}`, &ep)
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 3 {
		if code := ask(gone, "POST", "/api/episodes/"+ep.ID+"/step", `{"steps": 5}`, nil); code == http.StatusOK {
			t.Error("a step is made for a visitor who has left")
		}
	}
	ask(t.Context(), "POST", "/api/episodes/"+ep.ID+"/step", `{"steps": 6}`, &ep)
	ask(gone, "GET", "/api/episodes/"+ep.ID+"/why?step=4", "", nil)
	var why board.Explanation
	ask(t.Context(), "GET", "/api/episodes/"+ep.ID+"/why?step=3", "", &why)
	want, pods := playAlone(t, map[string]any{"nodes": 4}, 7, 6, "RoundRobin", 6)
	if diff := cmp.Diff(want, ep.Returns); diff != "" || !cmp.Equal(why.Frame.Pods, pods[3]) {
		t.Errorf("returns (-played alone +on the page):\n%s\nat step 3 pods %v, want %v", diff, why.Frame.Pods, pods[3])
	}
}

// TestOldEpisodesMakeWay: sixteen are kept, and the one used longest ago is forgotten first.
func TestOldEpisodesMakeWay(t *testing.T) {
	page := serve(t, board.Config{})
	for i := range 17 {
		var ep board.EpisodeInfo
		call(t, page, "POST", "/api/episodes", map[string]any{"env": "classic/CartPole-v1", "policy": "random"}, &ep)
		if i > 0 {
			call(t, page, "GET", "/api/episodes/1", nil, &ep) // so the first is used all the time
		}
	}
	if one, two := call(t, page, "GET", "/api/episodes/1", nil, nil), call(t, page, "GET", "/api/episodes/2", nil, nil); one != 200 || two != 404 {
		t.Errorf("episode 1: %d, episode 2: %d, want 200 and 404", one, two)
	}
}

// playAlone plays steps of an episode, RoundRobin until a step and then another policy. It returns the returns after
// each step and the pods of each node at each step.
func playAlone(t *testing.T, opts map[string]any, seed uint64, until int, then string, steps int) (returns []float64, pods [][]int32) {
	t.Helper()
	v, err := envs.Make("k8s/PodBalance-v0", 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	b, err := v.Reset(t.Context(), envs.VecResetOptions{Seeds: []uint64{seed}})
	if err != nil {
		t.Fatal(err)
	}
	var policies []agents.Policy
	for _, name := range []string{"RoundRobin", then} {
		p, err := baseline.New(v, name, seed)
		if err != nil {
			t.Fatal(err)
		}
		policies = append(policies, p)
	}
	count := func() {
		var n []int32
		for _, node := range v.Env(0).State().Nodes {
			n = append(n, node.NumPods)
		}
		pods = append(pods, n)
	}
	count()
	for k, action := 0, make([]float32, 1); k < steps; k++ {
		p := policies[0]
		if k >= until {
			p = policies[1]
		}
		if err := p.Act(b, action); err != nil {
			t.Fatal(err)
		}
		if b, err = v.Step(t.Context(), action); err != nil {
			t.Fatal(err)
		}
		returns = append(returns, b.EpisodeReturn[0])
		count()
	}
	return returns, pods
}

// TestScores: logits 0, -1, -2 are the probabilities e⁰, e⁻¹, e⁻² over their sum, 1.5032; the entropy was worked out
// by hand: 0.8324 nats.
func TestScores(t *testing.T) {
	page := serve(t, board.Config{})
	var ep board.EpisodeInfo
	call(t, page, "POST", "/api/episodes", map[string]any{"env": "k8s/PodBalance-v0", "policy": "First", "options": map[string]any{"nodes": 3}}, &ep)
	var why board.Explanation
	call(t, page, "GET", "/api/episodes/"+ep.ID+"/why?policies=scorer|Greedy|nobody", nil, &why)
	s := why.Choices[0].Scores
	if s == nil || s.Kind != "probability" || s.Value != 1.5 || s.Entropy == nil || math.Abs(*s.Entropy-0.8324) > 1e-4 {
		t.Fatalf("scores %+v", s)
	}
	for i, want := range []float64{0.6652, 0.2447, 0.0900} {
		if math.Abs(*s.Actions[i]-want) > 1e-4 {
			t.Errorf("probability of action %d: %v, want %v", i, *s.Actions[i], want)
		}
	}
	// First has filled the first node of 64 CPU, which is masked out: of the logits -1 and -2 the probabilities are 1/(1+1/e)
	// and 1/(1+e).
	call(t, page, "POST", "/api/episodes", map[string]any{"env": "k8s/PodBalance-v0", "policy": "First", "options": map[string]any{"nodes": 3, "cpu_load": 0.9, "memory_load": 0.9, "pod_load": 0.9}}, &ep)
	call(t, page, "POST", "/api/episodes/"+ep.ID+"/step", map[string]any{"steps": 70}, &ep)
	var full board.Explanation
	call(t, page, "GET", "/api/episodes/"+ep.ID+"/why?policies=scorer", nil, &full)
	if p := full.Choices[0].Scores.Actions; p[0] != nil || math.Abs(*p[1]-0.7311) > 1e-4 || math.Abs(*p[2]-0.2689) > 1e-4 {
		t.Errorf("probabilities %v, want none of the masked node, then 0.7311 and 0.2689", p)
	}
	if c := why.Choices[1]; c.Scores != nil || len(c.Action) != 1 || c.Error != "" {
		t.Errorf("Greedy: %+v, want an action without scores", c)
	}
	if c := why.Choices[2]; !strings.Contains(c.Error, "nobody") {
		t.Errorf("an unknown policy: %+v", c)
	}
}

// TestRefusals: the server rejects bad requests by status, and still answers good ones.
func TestRefusals(t *testing.T) {
	page := serve(t, board.Config{})
	for _, c := range []struct {
		path string
		body map[string]any
		code int
	}{
		{"/api/episodes", map[string]any{"env": "k8s/Nothing-v0", "policy": "First"}, 404},
		{"/api/episodes", map[string]any{"env": "k8s/PodBalance-v0", "policy": "First", "options": map[string]any{"nodes": 0}}, 400},
		{"/api/episodes", map[string]any{"env": "k8s/PodBalance-v0", "policy": "/etc/passwd.safetensors"}, 404},
		{"/api/episodes", map[string]any{"unknown": 1}, 400},
		{"/api/episodes/77/step", map[string]any{"steps": 1}, 404},
		{"/api/episodes/77/step", map[string]any{"steps": 100000}, 400},
		{"/api/episodes/77/fork", map[string]any{"step": 1, "policy": "First"}, 404},
	} {
		if code := call(t, page, "POST", c.path, c.body, nil); code != c.code {
			t.Errorf("POST %s %v: %d, want %d", c.path, c.body, code, c.code)
		}
	}
	var list []board.EnvironmentInfo
	call(t, page, "GET", "/api/environments", nil, &list)
	if len(list) < 10 {
		t.Errorf("%d environments", len(list))
	}
}

// TestRefusalsAreJSON: errors of unknown routes, other methods and the guard are JSON as those of routes are.
func TestRefusalsAreJSON(t *testing.T) {
	open, guarded := serve(t, board.Config{}), serve(t, board.Config{Guard: guard.Guard{Accept: guard.Only("secret")}})
	for _, tc := range []struct {
		page, method, path string
		status             int
		want               string
	}{
		{open, "GET", "api/nothing", http.StatusNotFound, "404 page not found"},
		{open, "GET", "api/cluster", http.StatusNotFound, "404 page not found"},
		{open, "GET", "api/runs/none", http.StatusNotFound, `no run "none"`},
		{open, "PUT", "api/runs", http.StatusMethodNotAllowed, "Method Not Allowed"},
		{guarded, "GET", "api/runs", http.StatusUnauthorized, "a bearer token is needed"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, tc.page+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Error string }
		err = json.NewDecoder(resp.Body).Decode(&got)
		resp.Body.Close()
		if err != nil || got.Error != tc.want || resp.StatusCode != tc.status || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %s, %s, error %q, %v; want %d, error %q", tc.method, tc.path, resp.Status, resp.Header.Get("Content-Type"), got.Error, err, tc.status, tc.want)
		}
	}
}

// TestToken: without the token nothing is answered; the address with it sets a cookie and goes away.
func TestToken(t *testing.T) {
	page := serve(t, board.Config{Guard: guard.Guard{Accept: guard.Only("secret")}})
	jar := map[string]int{"": 401, "Bearer wrong": 401, "Bearer secret": 200}
	for header, want := range jar {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", page+"api/runs", nil)
		req.Header.Set("Authorization", header)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("Authorization %q: %d, want %d", header, resp.StatusCode, want)
		}
	}
	noFollow := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := noFollow.Get(page + "?token=secret")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if c := resp.Header.Get("Set-Cookie"); resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/" || !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "SameSite=Strict") {
		t.Errorf("/?token=secret: %s to %q, cookie %q", resp.Status, resp.Header.Get("Location"), c)
	}
	req, _ := http.NewRequestWithContext(t.Context(), "GET", page, nil)
	req.AddCookie(resp.Cookies()[0])
	if resp, err = noFollow.Do(req); err != nil || resp.StatusCode != 200 {
		t.Fatalf("with the cookie: %v, %v", resp, err)
	}
	resp.Body.Close()
}

// TestPageLoadsItselfOnly: the policy of the page names no other host, nothing inline, and what the page loads is
// small: at most 300 kB as gzip, which the uncompressed size bounds.
func TestPageLoadsItselfOnly(t *testing.T) {
	page := board.New(board.Config{})
	size := 0
	for _, path := range []string{"/", "/app.js", "/app.css"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://localhost"+path, nil)
		page.ServeHTTP(w, r)
		size += w.Body.Len()
		csp := w.Header().Get("Content-Security-Policy")
		if w.Code != 200 || !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "script-src 'self';") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: %d, policy %q", path, w.Code, csp)
		}
	}
	if size > 300_000 {
		t.Errorf("the page has %d bytes, want at most 300,000", size)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "http://evil.example/", nil)
	if page.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("another name of this machine: %d, want 403", w.Code)
	}
}
