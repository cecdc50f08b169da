package core

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/board"
)

// TestBoard: the page lists a model of the repository, the model plays an episode there and gives the
// probabilities of its actions, and an interrupt ends the program without an error.
func TestBoard(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	c := boardConfig{listen: "127.0.0.1:0"}
	c.AllowControl = true
	c.Models = []string{filepath.Join("..", "..", "..", "models", "pretrained", "k8s-PodBalance-v0")}
	url, ended := started(ctx, t, c.serve)
	get := func(path string, to any) {
		t.Helper()
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(to); err != nil {
			t.Fatal(err)
		}
	}
	var list []board.EnvironmentInfo
	get("api/environments", &list)
	i := slices.IndexFunc(list, func(e board.EnvironmentInfo) bool { return e.ID == "k8s/PodBalance-v0" })
	m := slices.IndexFunc(list[i].Models, func(path string) bool { return filepath.Base(path) == "ppo.safetensors" })
	if m < 0 {
		t.Fatalf("models %v, want ppo.safetensors among them", list[i].Models)
	}
	model := list[i].Models[m]
	ask, err := json.Marshal(map[string]any{"env": list[i].ID, "policy": model, "options": list[i].HeldOut})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url+"api/episodes", "application/json", strings.NewReader(string(ask)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var ep board.EpisodeInfo
	if err := json.NewDecoder(resp.Body).Decode(&ep); err != nil || ep.ID == "" {
		t.Fatalf("%s: %+v, %v", resp.Status, ep, err)
	}
	var why board.Explanation
	get("api/episodes/"+ep.ID+"/why?policies="+model, &why)
	s := why.Choices[0].Scores
	if s == nil || s.Kind != "probability" || s.Entropy == nil {
		t.Fatalf("choices %+v", why.Choices)
	}
	sum, best := 0.0, 0
	for k, p := range s.Actions {
		if p == nil {
			continue
		}
		if sum += *p; *p > *s.Actions[best] {
			best = k
		}
	}
	if sum < 0.999999 || sum > 1.000001 || float32(best) != why.Choices[0].Action[0] {
		t.Errorf("probabilities sum to %v, the most probable action is %d, chosen is %v", sum, best, why.Choices[0].Action)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
}

// TestBoardNeedsToken: beyond the loopback interface the page is not shown to everybody.
func TestBoardNeedsToken(t *testing.T) {
	for listen, ok := range map[string]bool{"127.0.0.1:0": true, "localhost:1": true, "[::1]:1": true, "0.0.0.0:1": false, ":1": false, "nonsense": false} {
		c := boardConfig{listen: listen}
		if err := c.readToken(); (err == nil) != ok {
			t.Errorf("--listen %s: %v, want an error: %v", listen, err, !ok)
		}
	}
}

// TestEnjoyBoard: the address that enjoy prints shows an episode of the policy that was asked for, on held-out instances.
func TestEnjoyBoard(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	c := enjoyConfig{listen: "127.0.0.1:0"}
	c.Model = filepath.Join("..", "..", "..", "models", "pretrained", "k8s-PodBalance-v0", "ppo.safetensors")
	c.Seed = 5
	url, ended := started(ctx, t, c.onBoard)
	page, fragment, ok := strings.Cut(url, "#play?episodes=")
	if !ok {
		t.Fatalf("the address is %s", url)
	}
	resp, err := http.Get(page + "api/episodes/" + fragment)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var ep board.EpisodeInfo
	if err := json.NewDecoder(resp.Body).Decode(&ep); err != nil || ep.Env != "k8s/PodBalance-v0" || ep.Policy != c.Model || ep.Seed != 5 || ep.Steps != 0 || len(ep.Nodes) == 0 {
		t.Errorf("episode %+v, %v", ep, err)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	c.URLs = []string{"ws://127.0.0.1:1"}
	if err := c.onBoard(t.Context(), func(string) {}); err == nil {
		t.Error("--board plays on a server")
	}
}

// started starts what serves a page, and returns the page's address and where its error comes at the end.
func started(ctx context.Context, t *testing.T, serve func(ctx context.Context, ready func(url string)) error) (url string, ended <-chan error) {
	t.Helper()
	ready, end := make(chan string, 1), make(chan error, 1)
	go func() { end <- serve(ctx, func(url string) { ready <- url }) }()
	select {
	case url = <-ready:
	case err := <-end:
		t.Fatal(err)
	}
	return url, end
}
