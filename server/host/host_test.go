package host_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/guard"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/server/wire"
)

func TestHTTP(t *testing.T) {
	s := hosttest.Start(t)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/v1/envs": 200, "/": 404, "/v1/ws": 400} {
		if status, _ := get(t, s.HTTP+path); status != want {
			t.Errorf("GET %s: %d, want %d", path, status, want)
		}
	}
	_, body := get(t, s.HTTP+"/v1/envs")
	var doc wire.EnvsReply
	if err := json.Unmarshal([]byte(body), &doc); err != nil || len(doc.Envs) != len(envs.Specs()) {
		t.Errorf("GET /v1/envs: %v, %s", err, body)
	}
	c := dial(t, s.WS)
	c.open()
	c.send("step", "eid", 1, "a", 5)
	c.want("INVALID_ACTION 4")
	c.send("step", "eid", 1, "a", 0)
	c.want("step.ok 5")
	for name, want := range map[string]string{
		"kubernasium_sessions": "1", "kubernasium_envs": "1", "kubernasium_requests_total": "5", "kubernasium_env_steps_total": "1",
		`kubernasium_errors_total{code="INVALID_ARGUMENT"}`: "1", "kubernasium_step_seconds_count": "1",
	} {
		if got := metric(t, s, name); got != want {
			t.Errorf("metric %s is %q, want %s", name, got, want)
		}
	}
}

func TestAuthorization(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.Guard.Accept = guard.Only("secret") })
	enc := base64.RawURLEncoding.EncodeToString([]byte("secret"))
	for name, tc := range map[string]struct {
		header       http.Header
		subprotocols []string
		status       int
	}{
		"none":             {nil, nil, 401},
		"wrong":            {http.Header{"Authorization": {"Bearer secre"}}, nil, 401},
		"another scheme":   {http.Header{"Authorization": {"Basic secret"}}, nil, 401},
		"header":           {http.Header{"Authorization": {"Bearer secret"}}, nil, 101},
		"subprotocol":      {nil, []string{wire.BearerPrefix + enc}, 101},
		"bad base64":       {nil, []string{wire.BearerPrefix + "!"}, 401},
		"wrong subproto":   {nil, []string{wire.BearerPrefix + "AAAA"}, 401},
		"wins over origin": {http.Header{"Origin": {"http://evil.example"}}, nil, 401},
		"foreign origin":   {http.Header{"Authorization": {"Bearer secret"}, "Origin": {"http://evil.example"}}, nil, 403},
	} {
		d := websocket.Dialer{Subprotocols: append([]string{wire.Subprotocol}, tc.subprotocols...)}
		conn, resp, err := d.Dial(s.WS, tc.header)
		if resp == nil || resp.StatusCode != tc.status {
			t.Errorf("%s: %v, want status %d", name, err, tc.status)
		}
		if err == nil {
			if got := conn.Subprotocol(); got != wire.Subprotocol {
				t.Errorf("%s: subprotocol %q: the token must not come back", name, got)
			}
			_ = conn.Close() // the connection has served its end
		}
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 401, "/v1/envs": 401} {
		if status, _ := get(t, s.HTTP+path); status != want {
			t.Errorf("GET %s without a token: %d, want %d", path, status, want)
		}
	}
	c := dial(t, s.Unix) // the file's mode is its lock
	c.open()
}

func TestOrigin(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.Guard.Origins = []string{"http://localhost:3000"} })
	addr := strings.TrimPrefix(s.HTTP, "http://")
	for origin, want := range map[string]int{
		"":                         200,
		"http://localhost:3000":    200,
		"http://" + addr:           200,
		"http://localhost:3001":    403,
		"http://evil.example":      403,
		"http://evil.example:8765": 403,
		"null":                     403,
		"::":                       403,
	} {
		if status, _ := get(t, s.HTTP+"/v1/envs", "Origin", origin); status != want {
			t.Errorf("origin %q: status %d, want %d", origin, status, want)
		}
	}
	// A name that was made to point to the loopback address.
	req, err := http.NewRequest(http.MethodGet, s.HTTP+"/v1/envs", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	req.Header.Set("Origin", "http://evil.example")
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil || resp.StatusCode != 403 {
		t.Errorf("a rebound name: %v, %v; want status 403", resp, err)
	} else {
		_ = resp.Body.Close() // nothing of it is wanted
	}
}

// Pings of the protocol and of WebSocket are answered while a step runs.
func TestPingDuringStep(t *testing.T) {
	s := hosttest.Start(t)
	for _, url := range []string{s.WS, s.Unix} {
		c := dial(t, url)
		c.open()
		c.send("step", "eid", 1, "a", 1)
		<-waiting
		c.send("step", "eid", 1, "a", 0) // waits for the first
		for id := range 3 {
			c.send("ping")
			c.want(fmt.Sprintf("ping.ok %d", id+6))
		}
		if c.ws != nil {
			pong := make(chan struct{}, 1)
			c.ws.SetPongHandler(func(string) error { pong <- struct{}{}; return nil })
			if err := c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			c.send("ping") // its reply has the reader see the pong
			c.want("ping.ok 9")
			select {
			case <-pong:
			default:
				t.Error("a control ping during a step is not answered before later requests")
			}
		}
		release <- struct{}{}
		c.want("step.ok 4")
		c.want("step.ok 5")
		c.send("step", "eid", 1, "a", 0)
		c.want(fmt.Sprintf("step.ok %d", c.id))
	}
}

// Requests beyond the limit are refused while a step runs, and the connection lives.
func TestInflight(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.Limits.Inflight = 2 })
	c := dial(t, s.Unix)
	c.open()
	c.send("step", "eid", 1, "a", 1)
	<-waiting
	c.send("step", "eid", 1, "a", 0)
	for range 50 {
		c.send("step", "eid", 1, "a", 0)
		c.want(fmt.Sprintf("INFLIGHT %d", c.id))
	}
	release <- struct{}{}
	c.want("step.ok 4")
	c.want("step.ok 5")
}

// A client that vanishes during a step ends it, and its environments are freed.
func TestVanishDuringStep(t *testing.T) {
	s := hosttest.Start(t)
	for _, url := range []string{s.WS, s.Unix} {
		c := dial(t, url)
		c.open()
		c.send("step", "eid", 1, "a", 1)
		<-waiting
		conn := c.unix
		if c.ws != nil {
			conn = c.ws.NetConn()
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "free", func() bool {
			return metric(t, s, "kubernasium_sessions") == "0" && metric(t, s, "kubernasium_envs") == "0"
		})
	}
}

// A client that sends no hello gets a close frame with the reason. TestIdle has the time of it.
func TestTimeouts(t *testing.T) {
	for code, change := range map[int]func(*host.Config){
		websocket.ClosePolicyViolation: func(c *host.Config) { c.Limits.HandshakeMS = 30 },
		websocket.CloseGoingAway:       func(c *host.Config) { c.Limits.IdleMS = 30 },
	} {
		s := hosttest.Start(t, change)
		for _, url := range []string{s.WS, s.Unix} {
			dial(t, url).ended(code)
		}
	}
}

// A server that stops finishes what runs, refuses what comes, says so, and closes.
func TestDrain(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.DrainFor = patience })
	var clients []*client
	for _, url := range []string{s.WS, s.Unix} {
		c := dial(t, url)
		c.open()
		c.send("step", "eid", 1, "a", 1)
		<-waiting
		clients = append(clients, c)
	}
	idle := dial(t, s.WS)
	idle.open()
	stopped := make(chan error)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	for _, c := range clients {
		c.want("drain 0")
		c.send("stats", "eid", 1)
		c.want("DRAINING 5")
	}
	idle.want("drain 0")
	idle.ended(websocket.CloseGoingAway)
	if status, _ := get(t, s.HTTP+"/readyz"); status != 503 {
		t.Errorf("GET /readyz while draining: %d, want 503", status)
	}
	for range clients {
		release <- struct{}{}
	}
	for _, c := range clients {
		c.want("step.ok 4")
		c.ended(websocket.CloseGoingAway)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// Steps that take longer than a server drains for are cut off.
func TestDrainEnds(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.DrainFor = 20 * time.Millisecond })
	c := dial(t, s.Unix)
	c.open()
	c.send("step", "eid", 1, "a", 1)
	<-waiting
	if err := s.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	c.ended(0)
}

// Over a unix socket, a length beyond the limit is answered before the connection closes.
func TestUnixOversize(t *testing.T) {
	s := hosttest.Start(t)
	c := dial(t, s.Unix)
	c.open()
	if _, err := c.unix.Write([]byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	c.want("TOO_LARGE 0")
	c.ended(0)
}

// A client that does not read its replies is not waited for at shutdown.
func TestSlowReaderAtShutdown(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.DrainFor = 50 * time.Millisecond })
	c := dial(t, s.Unix)
	c.send("hello", "ver", []int{1, 0})
	c.want("welcome 1")
	_ = c.unix.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	big := strings.Repeat("x", 1<<20)
	for range 100 { // until the server's replies fill the socket, so that it stops reading
		c.id++
		c.w.Head(3, "ping", c.id)
		c.w.Str("ts")
		c.w.Str(big)
		if _, err := c.unix.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(c.w.Bytes()))), c.w.Bytes()...)); err != nil {
			return // stuck, as wanted; the shutdown at the test's end must not be
		}
	}
	t.Error("the server reads on although its replies are not read")
}
