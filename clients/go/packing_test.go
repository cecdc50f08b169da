package client

import (
	"context"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/gang"
	_ "github.com/kubernasium/kubernasium/envs/podsched/gpu"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// counted returns the URL of a proxy before a server, and the number of bytes that went each way.
func counted(t *testing.T, rawURL string) (through string, up, down *atomic.Int64) {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // it ends the goroutine below
	up, down = new(atomic.Int64), new(atomic.Int64)
	pipe := func(dst, src net.Conn, n *atomic.Int64) {
		defer dst.Close()
		_, _ = io.Copy(io.MultiWriter(dst, counter{n}), src) // ends with either side
	}
	to := u.Host
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				return
			}
			go pipe(server, client, up)
			go pipe(client, server, down)
		}
	}()
	u.Host = l.Addr().String()
	return u.String(), up, down
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// TestCompress: compressed frames carry the batches of a local vector, through lost connections too, in fewer bytes.
func TestCompress(t *testing.T) {
	for id, actions := range map[string]int{"k8s/GangWindow-v0": 4, "k8s/GPUPodScheduling-v1": 8} {
		t.Run(id, func(t *testing.T) {
			if testing.Short() && actions == 8 {
				t.Skip("a figure of docs/wire.md; run without -short")
			}
			compress(t, id, actions)
		})
	}
}

func compress(t *testing.T, id string, choices int) {
	const n, steps = 64, 30
	s := hosttest.Start(t)
	ctx := context.Background()
	traffic := map[string][2]int64{}
	for _, query := range []string{"", "?compress=zstd"} {
		through, up, down := counted(t, s.WS)
		v, err := Dial(ctx, through+query, id, n, Options{Autoreset: envs.SameStep})
		if err != nil {
			t.Fatal(err)
		}
		local, err := envs.Make(id, n, envs.VecOptions{Autoreset: envs.SameStep})
		if err != nil {
			t.Fatal(err)
		}
		seed := uint64(3)
		for _, x := range []envs.VecEnv{v, local} {
			if _, err := x.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
				t.Fatal(err)
			}
		}
		actions := make([]float32, n)
		for k := range steps {
			for i := range actions {
				actions[i] = float32((i + k) % choices)
			}
			if k%10 == 9 {
				cutBelow(t, v)
			}
			want, err := local.Step(ctx, actions)
			if err != nil {
				t.Fatal(err)
			}
			got, err := v.Step(ctx, actions)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Obs, want.Obs) || !slices.Equal(got.Reward, want.Reward) || !slices.Equal(got.Info, want.Info) {
				t.Fatalf("%q, step %d: other batches than those of a local vector", query, k)
			}
		}
		for _, x := range []envs.VecEnv{v, local} {
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		}
		traffic[query] = [2]int64{up.Load(), down.Load()}
	}
	plain, packed := traffic[""], traffic["?compress=zstd"]
	t.Logf("%d steps of %d environments: %d bytes to the server and %d back; compressed %d and %d", steps, n, plain[0], plain[1], packed[0], packed[1])
	if packed[0] >= plain[0] || packed[1] >= plain[1]*3/4 {
		t.Errorf("compressed: %d bytes to the server and %d back, want fewer than %d, and less than three quarters of %d", packed[0], packed[1], plain[0], plain[1])
	}
}

// cutBelow cuts the connection of v, compressed or not.
func cutBelow(t *testing.T, v *VecEnv) {
	t.Helper()
	if packed, ok := v.t.(*packedTransport); ok {
		v.t = packed.transport
		defer v.use(packed)
	}
	cutNow(t, v)
}

// TestCompressIsAsked: an URL that asks for another compression is refused, and a server without the part is served as
// it is.
func TestCompressIsAsked(t *testing.T) {
	s := hosttest.Start(t, func(*host.Config) {})
	_, err := Dial(context.Background(), s.WS+"?compress=gzip", "classic/CartPole-v1", 1, Options{})
	if err == nil || !strings.Contains(err.Error(), "compress=gzip") || !strings.Contains(err.Error(), "want zstd") {
		t.Errorf("compress=gzip: %v, want what is right", err)
	}
	v, err := Dial(context.Background(), s.Unix+"?compress=zstd", "classic/CartPole-v1", 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := v.t.(*packedTransport); !ok {
		t.Errorf("a unix socket with compress=zstd has a %T", v.t)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}
