package host

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/wire"
)

// naps is an environment whose steps take long.
type naps struct{}

const nap = 250 * time.Millisecond

func (naps) Spaces() (obs, act space.Space) { return space.NewBox(0, 1, 1), space.Discrete{N: 2} }

func (naps) Begin(context.Context, cluster.Cluster, *rand.Rand) error { return nil }

func (naps) Apply(context.Context, cluster.Cluster, []float32) (envs.Outcome, error) {
	time.Sleep(nap)
	return envs.Outcome{}, nil
}

func (naps) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0], mask[0], mask[1] = 0, true, true
}

func init() {
	envs.Register(&envs.Spec{
		ID:   "test/Naps-v0",
		Open: func(map[string]any) (envs.Maker, error) { return func() (envs.Task, error) { return naps{}, nil }, nil },
	})
}

// The handshake has its time, and a client that asks nothing for too long is idle; while it waits for a step it is
// not, and from the reply on it has all of its time again. Time is simulated.
func TestIdle(t *testing.T) { synctest.Test(t, testIdle) }

func testIdle(t *testing.T) {
	limits := wire.DefaultLimits()
	limits.HandshakeMS, limits.IdleMS = 30, 100
	const handshake, idle = 30 * time.Millisecond, 100 * time.Millisecond
	s := New(Config{Limits: limits, Version: "test", DrainFor: time.Second, Log: slog.New(slog.DiscardHandler)})
	connect := func() net.Conn {
		ours, theirs := net.Pipe()
		c := newConn(s, theirs, newUnixStream(theirs, limits.MsgIn), nil)
		s.add(c)
		go s.run(c)
		return ours
	}
	ends := func(conn net.Conn, want time.Duration) {
		t.Helper()
		begin := time.Now()
		if n, err := io.Copy(io.Discard, conn); err != nil || n > 0 {
			t.Errorf("%d bytes and %v, want the connection's end", n, err)
		}
		if took := time.Since(begin); took != want {
			t.Errorf("the connection ends after %v, want %v", took, want)
		}
	}
	ends(connect(), handshake)

	conn, w, id := connect(), wire.NewWriter(), uint64(0)
	ask := func(kind, reply string, fields ...any) {
		t.Helper()
		id++
		w.Head(2+len(fields)/2, kind, id)
		for _, x := range fields {
			if err := w.Encode(x); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := conn.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(w.Bytes()))), w.Bytes()...)); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		var head [4]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		data, f := make([]byte, binary.LittleEndian.Uint32(head[:])), wire.Frame{}
		if _, err := io.ReadFull(conn, data); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if err := f.Parse(data, wire.DefaultBounds); err != nil || string(f.Type) != reply {
			t.Fatalf("%s is answered with %q, %v; want %s", kind, data, err, reply)
		}
	}
	ask("hello", "welcome", "ver", []int{1, 0})
	for _, request := range []func(){
		func() { ask("make", "make.ok", "env", "test/Naps-v0") },
		func() { ask("reset", "reset.ok", "eid", 1) },
		func() { ask("step", "step.ok", "eid", 1, "a", 0) },
		func() { ask("step", "step.ok", "eid", 1, "a", 1) },
	} {
		time.Sleep(idle - time.Millisecond)
		request()
	}
	ends(conn, idle)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
