package podsched

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// TestExplainIsThePage: of a decision the command gives as JSON and as text what the page shows: the columns of each node, the
// choice of the model, the probability of each node, the value and the entropy.
func TestExplainIsThePage(t *testing.T) {
	const decision, seed = 40, 5
	folder := filepath.Join("..", "..", "..", "models", "pretrained", "k8s-PodBalance-v0")
	model := filepath.Join(folder, "ppo.safetensors")
	page := board.New(board.Config{Models: []string{folder}, AllowControl: true, Open: func(ctx context.Context, v *envs.Vec, name string, seed uint64) (agents.Policy, func(), error) {
		c := play.Config{Baseline: name, Seed: seed}
		if name == model {
			c.Model, c.Baseline = name, ""
		}
		_, p, closePolicy, err := play.OpenPolicy(ctx, v, c)
		if m, ok := p.(*play.Model); ok {
			p = m.Policy
		}
		return p, closePolicy, err
	}})
	defer page.Close()
	call := func(method, path, body string, to any) {
		t.Helper()
		r, w := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Content-Type", "application/json")
		page.ServeHTTP(w, r)
		if err := json.Unmarshal(w.Body.Bytes(), to); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	var ep board.EpisodeInfo
	call("POST", "/api/episodes", fmt.Sprintf(`{"env": "k8s/PodBalance-v0", "policy": "KubeDefault", "seed": %d}`, seed), &ep)
	call("POST", "/api/episodes/"+ep.ID+"/step", fmt.Sprintf(`{"steps": %d}`, decision), &ep)
	var why board.Explanation
	call("GET", "/api/episodes/"+ep.ID+"/why?"+url.Values{"step": {fmt.Sprint(decision)}, "policies": {model + "|Greedy"}}.Encode(), "", &why)
	shown := why.Choices[0].Scores

	args := []string{"podsched", "explain", "--decision", fmt.Sprint(decision), "--seed", fmt.Sprint(seed), "--model", model}
	e := clitest.Decode[explanation](t, mustExecute(t, append(args, "--json")...))
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })
	if diff := cmp.Diff(shown, e.Scores["ppo"], near); diff != "" || shown == nil || shown.Kind != "probability" {
		t.Errorf("scores (-page +command):\n%s", diff)
	}
	for i, row := range why.Rows {
		for k, c := range why.Columns {
			if row[k] != e.Nodes[i][c] {
				t.Errorf("node %d, %s: %q on the page, %q by the command", i, c, row[k], e.Nodes[i][c])
			}
		}
	}
	for i, name := range []string{"ppo", "Greedy"} {
		if node := why.Rows[int(why.Choices[i].Action[0])][0]; e.Choices[name] != node {
			t.Errorf("%s chooses %s on the page, %s by the command", name, node, e.Choices[name])
		}
	}
	text := mustExecute(t, args...)
	for i, row := range why.Rows {
		if p := shown.Actions[i]; p != nil && !strings.Contains(text, fmt.Sprintf("%.4f", *p)) {
			t.Errorf("the text lacks the probability %.4f of %s", *p, row[0])
		}
	}
}
