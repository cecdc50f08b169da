package client

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

func TestResolve(t *testing.T) {
	old := lookup
	defer func() { lookup = old }()
	lookup = func(_ context.Context, name string) ([]string, error) {
		if name != "envs.default.svc" {
			return nil, errors.New("no such host")
		}
		return []string{"10.0.0.7", "10.0.0.3", "10.0.0.7", "fd00::1"}, nil
	}
	got, err := Resolve(context.Background(), []string{"ws://a:1", "k8s+dns://envs.default.svc:8765?compress=zstd", "unix:///tmp/s"})
	want := []string{"ws://a:1", "ws://10.0.0.3:8765?compress=zstd", "ws://10.0.0.7:8765?compress=zstd", "ws://[fd00::1]:8765?compress=zstd", "unix:///tmp/s"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for url, text := range map[string]string{"k8s+dns://envs.default.svc": "want k8s+dns://name:port", "k8s+dns://other:1": "no such host"} {
		if _, err := Resolve(context.Background(), []string{url}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", url, err, text)
		}
	}
}

// TestUnknownScheme: the error names every kind of URL.
func TestUnknownScheme(t *testing.T) {
	for _, url := range []string{"ftp://127.0.0.1", "127.0.0.1"} {
		_, err := Dial(context.Background(), url, "classic/CartPole-v1", 1, Options{})
		if want := "want ws://host:port, wss://host:port, unix:///path or k8s+dns://name:port"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

// TestAnotherServerTakesOver: when a server is gone, its environments continue on another one, with the steps of a local
// vector; and again when that is gone, too.
func TestAnotherServerTakesOver(t *testing.T) {
	ctx := context.Background()
	fast := func(c *host.Config) { c.DrainFor = time.Millisecond }
	servers := []*hosttest.Instance{hosttest.Start(t, fast), hosttest.Start(t, fast), hosttest.Start(t, fast)}
	v, err := Dial(ctx, servers[0].WS+"?compress=zstd", "classic/CartPole-v1", 3, Options{Autoreset: envs.SameStep, Others: []string{servers[1].WS, servers[2].WS}})
	if err != nil {
		t.Fatal(err)
	}
	local, err := envs.Make("classic/CartPole-v1", 3, envs.VecOptions{Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(5)
	for _, x := range []envs.VecEnv{v, local} {
		if _, err := x.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
			t.Fatal(err)
		}
	}
	for k := range 90 {
		if k == 30 || k == 60 {
			if err := servers[k/30-1].Shutdown(ctx); err != nil {
				t.Fatal(err)
			}
		}
		actions := []float32{float32(k % 2), float32(k / 2 % 2), 1}
		want, err := local.Step(ctx, actions)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Step(ctx, actions)
		if err != nil {
			t.Fatalf("step %d: %v", k, err)
		}
		if !slices.Equal(got.Obs, want.Obs) || !slices.Equal(got.Reward, want.Reward) || !slices.Equal(got.EpisodeReturn, want.EpisodeReturn) {
			t.Fatalf("step %d: %v, want %v", k, got.Obs, want.Obs)
		}
	}
	for _, x := range []envs.VecEnv{v, local} {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := servers[2].Shutdown(ctx); err != nil {
		t.Error(err)
	}
	_, err = Dial(ctx, servers[0].WS, "classic/CartPole-v1", 1, Options{Others: []string{servers[2].WS}})
	if err == nil || !strings.Contains(err.Error(), hostOf(t, servers[0].WS)) || !strings.Contains(err.Error(), hostOf(t, servers[2].WS)) {
		t.Errorf("no server is there: %v, want both addresses", err)
	}
}

func hostOf(t *testing.T, url string) string {
	t.Helper()
	address := strings.TrimSuffix(strings.TrimPrefix(url, "ws://"), "/v1/ws")
	if _, _, err := net.SplitHostPort(address); err != nil {
		t.Fatal(err)
	}
	return address
}

// TestRouteStays: a lost connection is made again to the server that has the session.
func TestRouteStays(t *testing.T) {
	first, second := hosttest.Start(t), hosttest.Start(t)
	r := &route{urls: []string{first.WS, second.WS}}
	for _, want := range []string{first.WS, second.WS} {
		r.at = want
		for range 2 {
			c, err := r.dial(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if got := c.(*wsTransport).conn.RemoteAddr().String(); got != hostOf(t, want) {
				t.Errorf("connected to %s, want %s", got, want)
			}
			if err := c.close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSilentServer: a server that accepts and says nothing, as packets to a pod that is gone, costs a client the time
// for one connection, and then another server has its turn.
func TestSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := hosttest.Start(t)
	r := &route{urls: []string{"ws://" + l.Addr().String(), s.WS}}
	begin := time.Now()
	c, err := r.dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < dialTimeout || took >= handshakeTimeout || c.(*wsTransport).conn.RemoteAddr().String() != hostOf(t, s.WS) {
		t.Errorf("connected to %s after %v, want %s after %v", c.(*wsTransport).conn.RemoteAddr(), took, s.WS, dialTimeout)
	}
	if r.at != s.WS {
		t.Errorf("the next connection begins with %s, want %s", r.at, s.WS)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	alone := &route{urls: []string{"ws://" + l.Addr().String()}}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout+time.Second)
	defer cancel()
	begin = time.Now()
	if _, err := alone.dial(ctx); err == nil || time.Since(begin) < dialTimeout+time.Second/2 {
		t.Errorf("a silent server without others: %v after %v, before its time was over", err, time.Since(begin))
	}
}
