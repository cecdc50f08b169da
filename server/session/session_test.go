package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/classic"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/wire"
)

var ctx = context.Background()

// trouble is an environment that does what its action says: 0 nothing, 1 fails, 2 panics, 3
// waits until released or its context ends. Action 4 is masked and ends the episode.
type trouble struct{}

var release = make(chan struct{})

func (trouble) Spaces() (obs, act space.Space) { return space.NewBox(0, 1, 1), space.Discrete{N: 5} }

func (trouble) Begin(context.Context, cluster.Cluster, *rand.Rand) error { return nil }

func (trouble) Apply(ctx context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	switch action[0] {
	case 1:
		return envs.Outcome{}, errors.New("a secret of the server")
	case 2:
		panic("a secret of the server")
	case 3:
		select {
		case <-release:
		case <-ctx.Done():
			return envs.Outcome{}, ctx.Err()
		}
	case 4:
		return envs.Outcome{Reward: -1, Terminated: true}, nil
	}
	return envs.Outcome{Reward: 1}, nil
}

func (trouble) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0] = 0.5
	for i := range mask {
		mask[i] = i != 4
	}
}

func init() {
	timing := envcheck.Timing(3, 0)
	timing.ID = "test/Timing-v0"
	envs.Register(timing)
	envs.Register(&envs.Spec{
		ID: "test/Trouble-v0",
		Open: func(opts map[string]any) (envs.Maker, error) {
			if err := envs.DecodeOptions(opts, &struct{}{}); err != nil {
				return nil, err
			}
			return func() (envs.Task, error) { return trouble{}, nil }, nil
		},
	})
}

// TestBackendDown: an environment whose backend cannot be reached says so, with a code by which
// clients can distinguish it from a fault, and without the cause.
func TestBackendDown(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		helloLine,
		{m{"t": "make", "id": 2, "env": "test/Backend-v0"}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1}, m{"t": "reset.ok"}},
		{m{"t": "step", "id": 4, "eid": 1, "a": 0}, refused(4, wire.BackendDown)},
		{m{"t": "step", "id": 5, "eid": 1, "a": 0}, refused(5, wire.ResetNeeded)},
		{m{"t": "reset", "id": 6, "eid": 1}, m{"t": "reset.ok"}},
	})
	got := handle(t, s, m{"t": "step", "id": 7, "eid": 1, "a": 0})
	if got["code"] != string(wire.Unavailable) || strings.Contains(got["msg"].(string), "secret") {
		t.Errorf("step without a backend: %v, want code %s without the cause", got, wire.Unavailable)
	}
}

// downed is an environment whose backend is gone after each reset.
type downed struct{ trouble }

func (downed) Apply(context.Context, cluster.Cluster, []float32) (envs.Outcome, error) {
	return envs.Outcome{}, fmt.Errorf("bind: %w: dial a secret address: %w", cluster.ErrUnavailable, context.DeadlineExceeded)
}

func init() {
	envs.Register(&envs.Spec{
		ID: "test/Backend-v0",
		Open: func(map[string]any) (envs.Maker, error) {
			return func() (envs.Task, error) { return downed{}, nil }, nil
		},
	})
}

// fileOptions name a file, which other clients' environments may not read.
type fileOptions struct {
	Source string `opt:"source,file" words:"none" doc:"a file"`
	Steps  int    `opt:"steps" doc:"a number"`
}

func init() {
	timing := envcheck.Timing(3, 0)
	timing.ID, timing.Options = "test/File-v0", &fileOptions{}
	open := timing.Open
	timing.Open = func(opts map[string]any) (envs.Maker, error) {
		if err := envs.DecodeOptions(opts, &fileOptions{}); err != nil {
			return nil, err
		}
		return open(nil)
	}
	envs.Register(timing)
}

// TestDenyFiles: a server that others reach lets no client name its files, by the mark of the
// option and not by its name.
func TestDenyFiles(t *testing.T) {
	for _, deny := range []bool{true, false} {
		cfg := newConfig()
		cfg.DenyFiles = deny
		want := m{"t": "make.ok", "id": 2}
		if deny {
			want = refused(2, wire.InvalidOption)
		}
		play(t, newSession(t, cfg), []line{
			helloLine,
			{m{"t": "make", "id": 2, "env": "test/File-v0", "options": m{"source": "/etc/passwd"}}, want},
			{m{"t": "make", "id": 3, "env": "test/File-v0", "options": m{"source": "none", "steps": 2}}, m{"t": "make.ok", "id": 3}},
			{m{"t": "make", "id": 4, "env": "test/Filo-v0", "options": m{"source": "x"}}, refused(4, wire.UnknownEnv)},
		})
	}
}

func newConfig() *Config {
	entropy := uint64(1000)
	return &Config{
		Limits: wire.DefaultLimits(), Server: "kubernasium/test", DenyOptions: []string{"data"},
		Entropy: func() uint64 { entropy++; return entropy },
		Now:     time.Now, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Shared: &Shared{},
	}
}

func newSession(t testing.TB, cfg *Config) *Session {
	t.Helper()
	s := New(cfg, nil)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if s.envs != 0 || len(s.vecs) != 0 || s.snaps != 0 {
			t.Errorf("%d environments are left, and %d in snapshots", s.envs, s.snaps)
		}
	})
	return s
}

type m = map[string]any

func pack(t testing.TB, v any) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	enc.SetSortMapKeys(true)
	enc.UseCompactInts(true)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// unpack decodes a reply; arrays become the bytes of their elements.
func unpack(t testing.TB, reply []byte) m {
	t.Helper()
	dec := msgpack.NewDecoder(bytes.NewReader(reply))
	dec.UseLooseInterfaceDecoding(true)
	v, err := dec.DecodeInterface()
	if err != nil {
		t.Fatalf("reply %x: %v", reply, err)
	}
	return v.(m)
}

// array is the generic form of an array: its payload.
type array struct{ payload []byte }

func init() {
	msgpack.RegisterExtDecoder(wire.ArrayExt, (*array)(nil), func(d *msgpack.Decoder, v reflect.Value, n int) error {
		a := v.Interface().(*array)
		a.payload = make([]byte, n)
		return d.ReadFull(a.payload)
	})
}

// answer returns the reply to a request, which is valid until the next one.
func answer(ctx context.Context, s *Session, data []byte) []byte {
	req := &Request{Data: data}
	if reply := s.Admit(req); reply != nil {
		return reply
	}
	return s.Do(ctx, req)
}

func handle(t testing.TB, s *Session, request any) m {
	t.Helper()
	return unpack(t, answer(ctx, s, pack(t, request)))
}

// line is a request of a script and what its reply must hold.
type line struct {
	send m
	want m // keys that the reply must have with these values; nil values: keys that it must not have
}

func play(t *testing.T, s *Session, script []line) {
	t.Helper()
	for i, l := range script {
		got := handle(t, s, l.send)
		for _, k := range slices.Sorted(maps.Keys(l.want)) {
			v, ok := got[k]
			if l.want[k] == nil && !ok {
				continue
			}
			if !cmp.Equal(norm(v), norm(l.want[k])) {
				t.Errorf("line %d, %v: %s is %v, want %v; reply %v", i, l.send, k, v, l.want[k], got)
			}
		}
	}
}

func norm(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case uint64:
		return int64(v)
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = norm(x)
		}
		return out
	}
	return v
}

var helloLine = line{m{"t": "hello", "id": 1, "ver": []int{1, 0}}, m{"t": "welcome", "id": 1, "server": "kubernasium/test"}}

func refused(id int, reason wire.Reason) m {
	return m{"t": "err", "id": id, "code": string(reason.Code()), "reason": string(reason)}
}

func TestHandshake(t *testing.T) {
	cfg := newConfig()
	cfg.Limits.Sessions = 1
	s := newSession(t, cfg)
	play(t, s, []line{
		{m{"t": "envs", "id": 1}, refused(1, wire.HelloFirst)},
		{m{"t": "ping", "id": 2}, refused(2, wire.HelloFirst)},
		{m{"t": "hello", "id": 3, "ver": []int{2, 0}}, refused(3, wire.Version)},
		{m{"t": "hello", "id": 4, "ver": []int{2, 0}}, m{"ver": []any{1, 8}}},
		{m{"t": "hello", "id": 5}, refused(5, wire.BadField)},
		{m{"t": "hello", "id": 6, "ver": "1.0"}, refused(6, wire.BadField)},
		{m{"t": "hello", "id": 7, "ver": []int{1, 9}, "caps": []string{"x"}, "later": 1}, m{"t": "welcome", "id": 7, "ver": []any{1, 8}}},
		{m{"t": "hello", "id": 8, "ver": []int{1, 0}}, refused(8, wire.HelloTwice)},
	})
	other := newSession(t, cfg)
	play(t, other, []line{{m{"t": "hello", "id": 1, "ver": []int{1, 0}}, refused(1, wire.TooManySession)}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	play(t, other, []line{{m{"t": "hello", "id": 2, "ver": []int{1, 0}}, m{"t": "welcome", "id": 2}}})
}

func TestIDs(t *testing.T) {
	play(t, newSession(t, newConfig()), []line{
		helloLine,
		{m{"t": "ping", "id": 1}, refused(0, wire.BadID)},
		{m{"t": "ping"}, refused(0, wire.BadID)},
		{m{"t": "ping", "id": 0}, refused(0, wire.BadID)},
		{m{"t": "ping", "id": -5}, refused(0, wire.BadID)},
		{m{"t": "ping", "id": "x"}, refused(0, wire.BadID)},
		{m{"t": "ping", "id": 10, "ts": "now"}, m{"t": "ping.ok", "id": 10, "ts": "now"}},
		{m{"t": "ping", "id": 9}, refused(0, wire.BadID)},
		{m{"t": "no such", "id": 11}, refused(11, wire.UnknownMessage)},
		{m{"t": "ping", "id": 11}, refused(0, wire.BadID)}, // a refused request uses its id up
		{m{"t": "fork", "id": 12}, refused(12, wire.IsReserved)},
		{m{"id": 13}, refused(13, wire.Malformed)},
		{m{"t": "ping", "id": uint64(1<<64 - 1)}, m{"t": "ping.ok", "ts": nil}},
	})
}

func TestMakeAndClose(t *testing.T) {
	cfg := newConfig()
	cfg.Limits.EnvsMake, cfg.Limits.EnvsSession, cfg.Limits.EnvsServer = 10, 15, 20
	other := newSession(t, cfg)
	play(t, other, []line{helloLine, {m{"t": "make", "id": 2, "env": "test/Timing-v0", "n": 8}, m{"t": "make.ok"}}})
	play(t, newSession(t, cfg), []line{
		helloLine,
		{m{"t": "make", "id": 2}, refused(2, wire.BadField)},
		{m{"t": "make", "id": 3, "env": "classic/CartPol-v1"}, refused(3, wire.UnknownEnv)},
		{m{"t": "make", "id": 4, "env": "classic/CartPole-v1", "n": 0}, refused(4, wire.BadField)},
		{m{"t": "make", "id": 5, "env": "classic/CartPole-v1", "n": 11}, refused(5, wire.TooManyEnvs)},
		{m{"t": "make", "id": 6, "env": "classic/CartPole-v1", "n": 1.5}, refused(6, wire.BadField)},
		{m{"t": "make", "id": 7, "env": "classic/CartPole-v1", "autoreset": "NextStep"}, refused(7, wire.BadField)},
		{m{"t": "make", "id": 8, "env": "classic/CartPole-v1", "options": m{"x": 1}}, refused(8, wire.InvalidOption)},
		{m{"t": "make", "id": 9, "env": "classic/CartPole-v1", "options": m{"data": "/etc"}}, refused(9, wire.InvalidOption)},
		{m{"t": "make", "id": 10, "env": "classic/CartPole-v1", "max_episode_steps": -1}, refused(10, wire.BadField)},
		{m{"t": "make", "id": 11, "env": "classic/CartPole"}, m{"t": "make.ok", "eid": 1, "env": "classic/CartPole-v1", "n": 1, "autoreset": "NEXT_STEP", "max_episode_steps": 500, "mask": 2}},
		{m{"t": "make", "id": 12, "env": "classic/CartPole-v1", "n": 10, "max_episode_steps": 7}, m{"eid": 2, "max_episode_steps": 7}},
		{m{"t": "make", "id": 13, "env": "classic/CartPole-v1", "n": 5}, refused(13, wire.TooManyEnvs)}, // of the session
		{m{"t": "make", "id": 14, "env": "classic/CartPole-v1", "n": 2}, refused(14, wire.TooManyEnvs)}, // of the server
		{m{"t": "close", "id": 15}, refused(15, wire.BadField)},
		{m{"t": "close", "id": 16, "eid": 3}, refused(16, wire.UnknownEID)},
		{m{"t": "close", "id": 17, "eid": 2}, m{"t": "close.ok", "id": 17}},
		{m{"t": "close", "id": 18, "eid": 2}, refused(18, wire.UnknownEID)},
		{m{"t": "make", "id": 19, "env": "classic/CartPole-v1", "n": 2}, m{"eid": 3}},
	})
	if err := other.Close(); err != nil || cfg.Shared.Envs.Load() != 3 {
		t.Errorf("after the other session's Close (%v), %d environments are open, want 3", err, cfg.Shared.Envs.Load())
	}
}

func TestReplySize(t *testing.T) {
	cfg := newConfig()
	cfg.Limits.MsgOut = 5000
	play(t, newSession(t, cfg), []line{
		helloLine,
		{m{"t": "make", "id": 2, "env": "test/Timing-v0", "n": 100}, refused(2, wire.TooLarge)},
		{m{"t": "make", "id": 3, "env": "classic/CartPole-v1"}, m{"t": "make.ok"}},
		{m{"t": "reset", "id": 4, "eid": 1}, m{"t": "reset.ok"}},
		{m{"t": "render", "id": 5, "eid": 1, "mode": "rgb_array"}, refused(5, wire.TooLarge)},
	})
	if n := cfg.Shared.Envs.Load(); n != 1 {
		t.Errorf("%d environments are open, want 1", n)
	}
}

func TestOrderOfCalls(t *testing.T) {
	play(t, newSession(t, newConfig()), []line{
		helloLine,
		{m{"t": "make", "id": 2, "env": "test/Trouble-v0", "n": 2, "autoreset": "DISABLED"}, m{"eid": 1, "mask": 5}},
		{m{"t": "step", "id": 3, "eid": 1, "a": []int{0, 0}}, refused(3, wire.ResetNeeded)},
		{m{"t": "step", "id": 4, "eid": 9, "a": []int{0, 0}}, refused(4, wire.UnknownEID)},
		{m{"t": "step", "id": 5, "a": []int{0, 0}}, refused(5, wire.BadField)},
		{m{"t": "render", "id": 6, "eid": 1, "mode": "ansi"}, refused(6, wire.CannotRender)},
		{m{"t": "reset", "id": 7, "eid": 1, "seed": 1, "mask": []bool{true, false}}, m{"t": "reset.ok", "seed": nil}},
		{m{"t": "step", "id": 8, "eid": 1, "a": []int{0, 0}}, refused(8, wire.ResetNeeded)}, // row 1 was never reset
		{m{"t": "reset", "id": 9, "eid": 1}, m{"t": "reset.ok", "seed": 1002}},              // drawn for row 1
		{m{"t": "reset", "id": 10, "eid": 1}, m{"t": "reset.ok", "seed": nil}},
		{m{"t": "reset", "id": 11, "eid": 1, "mask": []bool{false, false}}, refused(11, wire.InvalidOption)},
		{m{"t": "reset", "id": 12, "eid": 1, "seed": []int{1}}, refused(12, wire.InvalidOption)},
		{m{"t": "reset", "id": 13, "eid": 1, "seed": -1}, refused(13, wire.InvalidOption)},
		{m{"t": "reset", "id": 14, "eid": 1, "options": m{"x": 1}}, refused(14, wire.InvalidOption)},
		{m{"t": "reset", "id": 15, "eid": 1, "options": 5}, refused(15, wire.BadField)},
		{m{"t": "reset", "id": 16, "eid": 1, "options": m{}, "seed": []any{nil, 5}}, m{"t": "reset.ok"}},
		{m{"t": "step", "id": 17, "eid": 1, "a": []int{0, 5}}, refused(17, wire.InvalidAction)},
		{m{"t": "step", "id": 18, "eid": 1, "a": []float64{0, 0.5}}, refused(18, wire.InvalidAction)},
		{m{"t": "step", "id": 19, "eid": 1, "a": []int{0}}, refused(19, wire.InvalidAction)},
		{m{"t": "step", "id": 20, "eid": 1}, refused(20, wire.BadField)},
		{m{"t": "step", "id": 21, "eid": 1, "a": []int{0, 0}}, m{"t": "step.ok", "te": nil, "tr": nil, "inv": nil, "ep": nil, "fin": nil, "info": nil}},
		{m{"t": "stats", "id": 22, "eid": 1}, m{"steps": 2, "resets": 4, "episodes": 0}},
		{m{"t": "step", "id": 23, "eid": 1, "a": []int{4, 0}}, m{"t": "step.ok", "fin": nil}},
		{m{"t": "step", "id": 24, "eid": 1, "a": []int{0, 0}}, refused(24, wire.ResetNeeded)},
		{m{"t": "stats", "id": 25, "eid": 1}, m{"steps": 4, "episodes": 1}},
	})
}

// Failures inside an environment are refusals that hide their cause, and a reset helps.
func TestFailures(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		helloLine,
		{m{"t": "make", "id": 2, "env": "test/Trouble-v0"}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1, "seed": 1}, m{"t": "reset.ok"}},
		{m{"t": "step", "id": 4, "eid": 1, "a": 1}, refused(4, wire.EnvFailed)},
		{m{"t": "step", "id": 5, "eid": 1, "a": 0}, refused(5, wire.ResetNeeded)},
		{m{"t": "reset", "id": 6, "eid": 1}, m{"t": "reset.ok"}},
		{m{"t": "step", "id": 7, "eid": 1, "a": 2}, refused(7, wire.EnvFailed)},
		{m{"t": "reset", "id": 8, "eid": 1}, m{"t": "reset.ok"}},
		{m{"t": "step", "id": 9, "eid": 1, "a": 3, "dl": 20}, refused(9, wire.Deadline)},
		{m{"t": "reset", "id": 10, "eid": 1}, m{"t": "reset.ok"}},
		{m{"t": "step", "id": 11, "eid": 1, "a": 0, "dl": 60000}, m{"t": "step.ok"}},
		{m{"t": "step", "id": 12, "eid": 1, "a": 0, "dl": "x"}, refused(12, wire.BadField)},
	})
	if msg := handle(t, s, m{"t": "step", "id": 13, "eid": 1, "a": 1})["msg"]; bytes.Contains([]byte(msg.(string)), []byte("secret")) {
		t.Errorf("the message %q has the cause", msg)
	}
	if n := s.cfg.Shared.Errors()[wire.Internal]; n != 3 {
		t.Errorf("%d errors INTERNAL are counted, want 3", n)
	}
}

// While a step runs, pings are answered, requests queue up to the limit, and draining refuses.
func TestWhileAStepRuns(t *testing.T) {
	cfg := newConfig()
	cfg.Limits.Inflight = 2
	s := newSession(t, cfg)
	play(t, s, []line{
		helloLine,
		{m{"t": "make", "id": 2, "env": "test/Trouble-v0"}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1, "seed": 1}, m{"t": "reset.ok"}},
	})
	long := &Request{Data: pack(t, m{"t": "step", "id": 4, "eid": 1, "a": 3})}
	if s.Admit(long) != nil {
		t.Fatal("a step is answered at arrival")
	}
	var wg sync.WaitGroup
	var reply m
	wg.Go(func() { reply = unpack(t, s.Do(ctx, long)) })

	admit := func(v m) m {
		r := &Request{Data: pack(t, v)}
		if b := s.Admit(r); b != nil {
			return unpack(t, b)
		}
		return nil
	}
	if got := admit(m{"t": "ping", "id": 5, "ts": 1}); got["t"] != "ping.ok" {
		t.Errorf("ping during a step: %v", got)
	}
	if got := admit(m{"t": "stats", "id": 6, "eid": 1}); got != nil {
		t.Errorf("a second request: %v, want none before the first is done", got)
	}
	if got := admit(m{"t": "stats", "id": 7, "eid": 1}); got["reason"] != string(wire.Inflight) {
		t.Errorf("a third request: %v, want %s", got, wire.Inflight)
	}
	cfg.Shared.Draining.Store(true)
	if got := admit(m{"t": "stats", "id": 8, "eid": 1}); got["reason"] != string(wire.Draining) {
		t.Errorf("a request while draining: %v, want %s", got, wire.Draining)
	}
	release <- struct{}{}
	wg.Wait()
	if reply["t"] != "step.ok" || norm(reply["id"]) != int64(4) {
		t.Errorf("the long step: %v", reply)
	}
}

// A session that is closed during a step ends it.
func TestCancel(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		helloLine,
		{m{"t": "make", "id": 2, "env": "test/Trouble-v0"}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1, "seed": 1}, m{"t": "reset.ok"}},
	})
	ended, cancel := context.WithCancel(ctx)
	cancel()
	got := unpack(t, answer(ended, s, pack(t, m{"t": "step", "id": 4, "eid": 1, "a": 3})))
	if got["reason"] != string(wire.WasCancelled) {
		t.Errorf("step: %v, want %s", got, wire.WasCancelled)
	}
}
