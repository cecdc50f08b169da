package host_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/classic"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/server/wire"
)

const patience = time.Minute

// slow is an environment in which action 1 waits until release or the end of its context.
type slow struct{}

var (
	release = make(chan struct{})
	waiting = make(chan struct{}, 64)
)

func (slow) Spaces() (obs, act space.Space) { return space.NewBox(0, 1, 1), space.Discrete{N: 2} }

func (slow) Begin(context.Context, cluster.Cluster, *rand.Rand) error { return nil }

func (slow) Apply(ctx context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	if action[0] == 1 {
		waiting <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
			return envs.Outcome{}, ctx.Err()
		}
	}
	return envs.Outcome{}, nil
}

func (slow) Clone(*rand.Rand) envs.Task { return slow{} }

func (slow) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0], mask[0], mask[1] = 0, true, true
}

func init() {
	envs.Register(&envs.Spec{
		ID: "test/Slow-v0",
		Open: func(map[string]any) (envs.Maker, error) {
			return func() (envs.Task, error) { return slow{}, nil }, nil
		},
		Baselines: []envs.Baseline{{Name: "ponders", Doc: "Action 0, after a millisecond.", New: func(envs.Task) (envs.Policy, error) {
			return func(_ context.Context, _ *cluster.State, _ bool, action []float32) error {
				time.Sleep(time.Millisecond)
				action[0] = 0
				return nil
			}, nil
		}}},
	})
}

// client is a raw client over either transport.
type client struct {
	t    testing.TB
	ws   *websocket.Conn
	unix net.Conn
	w    *wire.Writer
	f    wire.Frame
	id   uint64
}

func dial(t testing.TB, rawURL string) *client {
	t.Helper()
	c := &client{t: t, w: wire.NewWriter()}
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme == "unix" {
		if c.unix, err = net.Dial("unix", u.Path); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.unix.Close() }) // a test may have closed it
		_ = c.unix.SetDeadline(time.Now().Add(patience))
		return c
	}
	d := websocket.Dialer{Subprotocols: []string{wire.Subprotocol}}
	if c.ws, _, err = d.Dial(rawURL, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.ws.Close() }) // a test may have closed it
	_ = c.ws.SetReadDeadline(time.Now().Add(patience))
	return c
}

func (c *client) write(data []byte) {
	c.t.Helper()
	var err error
	if c.ws != nil {
		err = c.ws.WriteMessage(websocket.BinaryMessage, data)
	} else {
		_, err = c.unix.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data...))
	}
	if err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// send sends a request whose fields are pairs of a key and an integer or a string.
func (c *client) send(kind string, fields ...any) {
	c.t.Helper()
	c.id++
	c.w.Head(2+len(fields)/2, kind, c.id)
	for _, x := range fields {
		if err := c.w.Encode(x); err != nil {
			c.t.Fatal(err)
		}
	}
	c.write(c.w.Bytes())
}

func (c *client) readFrame() ([]byte, error) {
	if c.ws != nil {
		_, data, err := c.ws.ReadMessage()
		return data, err
	}
	var head [4]byte
	if _, err := io.ReadFull(c.unix, head[:]); err != nil {
		return nil, err
	}
	data := make([]byte, binary.LittleEndian.Uint32(head[:]))
	_, err := io.ReadFull(c.unix, data)
	return data, err
}

// read returns the kind and the id of the next frame; for an error its reason.
func (c *client) read() string {
	c.t.Helper()
	data, err := c.readFrame()
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	if err := c.f.Parse(data, wire.DefaultBounds); err != nil {
		c.t.Fatalf("frame %x: %v", data, err)
	}
	kind := string(c.f.Type)
	if kind == wire.TypeErr {
		var e wire.Error
		if err := c.f.Decode(&e); err != nil {
			c.t.Fatal(err)
		}
		kind = string(e.Reason)
	}
	return fmt.Sprintf("%s %d", kind, c.f.ID)
}

func (c *client) want(want string) {
	c.t.Helper()
	if got := c.read(); got != want {
		c.t.Fatalf("read %q, want %q", got, want)
	}
}

// open says hello and makes one slow environment, which is reset.
func (c *client) open() {
	c.t.Helper()
	c.send("hello", "ver", []int{1, 0})
	c.want("welcome 1")
	c.send("make", "env", "test/Slow-v0")
	c.want("make.ok 2")
	c.send("reset", "eid", 1)
	c.want("reset.ok 3")
}

// lease says hello and returns what resumes the session.
func (c *client) lease() (sid, token string) {
	c.t.Helper()
	c.send("hello", "ver", []int{1, 5}, "caps", []string{"resume"})
	c.want("welcome 1")
	var welcome struct {
		SID   string `json:"sid"`
		Token string `json:"resume_token"`
	}
	if err := c.f.Decode(&welcome); err != nil {
		c.t.Fatal(err)
	}
	return welcome.SID, welcome.Token
}

// ended waits for the end of the connection, and for its close code over WebSocket.
func (c *client) ended(code int) {
	c.t.Helper()
	for {
		_, err := c.readFrame()
		if err == nil {
			continue
		}
		if c.ws != nil && !websocket.IsCloseError(err, code) {
			c.t.Errorf("the connection ends with %v, want code %d", err, code)
		}
		return
	}
}

func get(t testing.TB, url string, header ...string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // all of it is read
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// metric returns the value of a line of /metrics.
func metric(t testing.TB, s *hosttest.Instance, name string) string {
	t.Helper()
	_, body := get(t, s.HTTP+"/metrics")
	for line := range strings.SplitSeq(body, "\n") {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			return v
		}
	}
	return ""
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("still not %s", what)
}
