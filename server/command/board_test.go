package command

import (
	"io"
	"net/http"
	"strings"
	"testing"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// TestServeBoard: the page is at / and shows the server's metrics and sessions, with the token where one is needed; it plays nothing,
// and without --board there is none.
func TestServeBoard(t *testing.T) {
	file := envstest.TempFile(t, "token", "secret\n")
	p := start(t, "--listen", "127.0.0.1:0", "--token-file", file, "--board")
	page := strings.TrimSuffix(strings.Replace(p.ready.URL, "ws://", "http://", 1), "/v1/ws")
	play(t, p.ready.URL, client.Options{Token: "secret"})
	v, err := client.Dial(t.Context(), p.ready.URL, "classic/CartPole-v1", 3, client.Options{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path, token string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	for _, c := range []struct {
		path, token string
		code        int
		has         string
	}{
		{"/", "secret", 200, "Kubernasium"},
		{"/api/metrics", "secret", 200, "kubernasium_env_steps_total 2"}, // two environments, a step
		{"/api/metrics", "", 401, ""},
		{"/api/sessions", "secret", 200, `"environments":[{"env":"classic/CartPole-v1","num_envs":3,"steps":0}]}]}`},
		{"/api/sessions", "", 401, ""},
		{"/", "wrong", 401, ""},
		{"/healthz", "", 200, "ok"},
		{"/api/environments", "secret", 200, "[]"},
	} {
		if code, text := get(c.path, c.token); code != c.code || !strings.Contains(text, c.has) {
			t.Errorf("GET %s with token %q: %d %.200q, want %d with %q", c.path, c.token, code, text, c.code, c.has)
		}
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	p.stop()
	p.wait(t)

	plain := start(t, "--listen", "127.0.0.1:0")
	page = strings.TrimSuffix(strings.Replace(plain.ready.URL, "ws://", "http://", 1), "/v1/ws")
	if code, _ := get("/", ""); code != http.StatusNotFound {
		t.Errorf("without --board the page answers %d, want 404", code)
	}
	plain.stop()
	plain.wait(t)
}
