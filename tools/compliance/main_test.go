package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	_ "github.com/kubernasium/kubernasium/envs/classic"
	"github.com/kubernasium/kubernasium/server/guard"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/server/wire"
)

// TestCommand runs the program: 0 for this project's server, 1 for one that answers everything with an empty map, 2 for
// mistakes of the user.
func TestCommand(t *testing.T) {
	program := filepath.Join(t.TempDir(), "compliance")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // whose packages the cache has
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	s := hosttest.Start(t, func(c *host.Config) { c.Guard.Accept = guard.Only("secret") })
	ours := strings.TrimSuffix(s.WS, wire.Path)
	empty := httptest.NewServer(http.HandlerFunc(answerNothing))
	defer empty.Close()
	for _, tc := range []struct {
		name  string
		args  []string
		token string
		code  int
		want  []string
	}{
		{"ours", []string{ours}, "secret", 0, []string{"--- PASS: kubernasium.v1/handshake", "--- PASS: kubernasium.v1/resume", "PASS\n"}},
		{"a part", []string{"--run", "order", s.WS}, "secret", 0, []string{"--- PASS: kubernasium.v1/order_of_calls"}},
		{"no token", []string{"--run", "seeds", ours}, "", 1, []string{"--- FAIL: kubernasium.v1/seeds"}},
		{"another server", []string{"--run", "handshake", "ws" + strings.TrimPrefix(empty.URL, "http")}, "", 1, []string{"--- FAIL: kubernasium.v1/handshake", "is answered with id <nil>, want 1"}},
		{"no URL", nil, "", 2, []string{"accepts 1 arg"}},
		{"a path", []string{"unix:///tmp/s"}, "", 2, []string{"want ws://HOST:PORT"}},
		{"no expression", []string{"--run", "(", ours}, "", 2, []string{"--run"}},
	} {
		cmd := exec.Command(program, tc.args...)
		cmd.Env = append(cmd.Environ(), "KUBERNASIUM_TOKEN="+tc.token)
		out, err := cmd.CombinedOutput()
		code := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != tc.code {
			t.Errorf("%s: exit status %d, want %d:\n%s", tc.name, code, tc.code, out)
		}
		for _, text := range tc.want {
			if !strings.Contains(string(out), text) {
				t.Errorf("%s: no %q in\n%s", tc.name, text, out)
			}
		}
		if tc.name == "a part" && strings.Contains(string(out), "handshake") {
			t.Errorf("--run order runs other parts:\n%s", out)
		}
	}
}

// answerNothing is a server that agrees to the subprotocol, and answers each message with an empty map.
func answerNothing(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{Subprotocols: []string{wire.Subprotocol}}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	for {
		if _, _, err := conn.ReadMessage(); err != nil {
			return
		}
		if err := conn.WriteMessage(websocket.BinaryMessage, []byte{0x80}); err != nil {
			return
		}
	}
}
