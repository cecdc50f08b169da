package session

import (
	"context"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/wire"
)

// walk counts its steps. It pays its action, permits all actions but 2 at odd steps, and ends
// after the third.
type walk struct{ k int }

type walkOptions struct {
	Pace int `opt:"pace" doc:"steps a second"`
}

func (*walk) Spaces() (obs, act space.Space) { return space.NewBox(0, 3, 1), space.Discrete{N: 3} }

func (w *walk) Begin(context.Context, cluster.Cluster, *rand.Rand) error { w.k = 0; return nil }

func (w *walk) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	w.k++
	return envs.Outcome{Reward: float64(action[0]), Terminated: w.k == 3}, nil
}

func (w *walk) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0] = float32(w.k)
	mask[0], mask[1], mask[2] = true, true, w.k%2 == 0
}

func (w *walk) Info(_ *cluster.State, dst []float64) { dst[0] = 10 * float64(w.k) }

func (w *walk) Features() []envs.Features { return []envs.Features{{Names: []string{"steps"}}} }

func (w *walk) Clone(*rand.Rand) envs.Task { c := *w; return &c }

func (w *walk) RenderANSI(*cluster.State) string { return "walk" }

// RenderRGB returns three pixels, red, green and blue, of half a background.
func (w *walk) RenderRGB(*cluster.State) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, 3, 1))
	img.SetRGBA(0, 0, color.RGBA{R: 200, A: 128})
	img.SetRGBA(1, 0, color.RGBA{G: 201, A: 128})
	img.SetRGBA(2, 0, color.RGBA{B: 202, A: 128})
	return img
}

func init() {
	envs.Register(&envs.Spec{
		ID: "test/Walk-v0", Doc: "Three steps.", MaxEpisodeSteps: 50, Options: &walkOptions{Pace: 2},
		Open: func(map[string]any) (envs.Maker, error) {
			return func() (envs.Task, error) { return &walk{}, nil }, nil
		},
		HeldOut: map[string]any{"pace": 3}, RenderModes: []string{"ansi", "rgb_array"},
		Info:    []envs.Column{{Name: "way", DType: "float64", Doc: "ten times the steps"}},
		Metrics: []envs.Metric{{Column: "way", Unit: "m", Lower: true}},
		Baselines: []envs.Baseline{{Name: "two", Doc: "Two.", Clairvoyant: true, New: func(envs.Task) (envs.Policy, error) {
			return func(_ context.Context, _ *cluster.State, _ bool, action []float32) error { action[0] = 2; return nil }, nil
		}}},
	})
}

func float32s(v any) []float32 {
	b := payload(v)
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// walking returns a session with two environments of walk.
func walking(t *testing.T, cfg *Config, autoreset string, steps int) *Session {
	t.Helper()
	s := newSession(t, cfg)
	play(t, s, []line{
		hello12,
		{m{"t": "make", "id": 2, "env": "test/Walk-v0", "n": 2, "autoreset": autoreset, "max_episode_steps": steps}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1}, m{"t": "reset.ok"}},
	})
	return s
}

// The catalog and the reply to make describe all that an environment declares.
func TestDescription(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{hello12})
	got := handle(t, s, m{"t": "envs", "id": 2, "filter": "test/Walk"})["envs"].([]any)[0].(m)
	made := handle(t, s, m{"t": "make", "id": 3, "env": "test/Walk-v0"})
	for name, tc := range map[string][2]any{
		"held_out":  {got["held_out"], m{"pace": int64(3)}},
		"options":   {got["options"], []any{m{"name": "pace", "type": "int", "default": int64(2), "doc": "steps a second"}}},
		"info":      {got["info"], []any{m{"name": "way", "dtype": "float64", "doc": "ten times the steps"}}},
		"metrics":   {got["metrics"], []any{m{"column": "way", "unit": "m", "lower": true}}},
		"baselines": {got["baselines"], []any{m{"name": "two", "doc": "Two.", "oracle": true}}},
		"features":  {made["features"], []any{m{"part": "", "row": "", "names": []any{"steps"}}}},
	} {
		if diff := cmp.Diff(tc[1], tc[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Hand-worked: episodes cut after 2 steps by the baseline that always chooses 2, which is
// permitted at the first step and masked at the second.
func TestRolloutOfTruncatedEpisodes(t *testing.T) {
	for _, tc := range []struct {
		autoreset  string
		obs        []float32 // before each step, of both environments
		truncated  []byte
		invalid    []byte
		steps      int
		last, info []float64 // of both episodes
	}{
		{"NEXT_STEP", []float32{0, 0, 1, 1, 2, 2, 0, 0}, []byte{0, 0, 1, 1, 0, 0, 0, 0}, []byte{0, 0, 1, 1, 0, 0, 0, 0}, 4, []float64{2, 2}, []float64{20, 20}},
		{"SAME_STEP", []float32{0, 0, 1, 1, 0, 0, 1, 1}, []byte{0, 0, 1, 1, 0, 0, 1, 1}, []byte{0, 0, 1, 1, 0, 0, 1, 1}, 4, []float64{2, 2, 2, 2}, []float64{20, 20, 20, 20}},
		{"DISABLED", []float32{0, 0, 1, 1}, []byte{0, 0, 1, 1}, []byte{0, 0, 1, 1}, 2, []float64{2, 2}, []float64{20, 20}},
	} {
		s := walking(t, newConfig(), tc.autoreset, 2)
		got := handle(t, s, m{"t": "rollout", "id": 4, "eid": 1, "name": "two", "steps": 4, "arrays": true})
		if norm(got["steps"]) != int64(tc.steps) || (got["cut"] == true) != (tc.steps < 4) {
			t.Errorf("%s: %v steps, cut %v; want %d of 4", tc.autoreset, got["steps"], got["cut"], tc.steps)
		}
		traj, eps := got["traj"].(m), got["eps"].(m)
		last := make([]float64, 0, 4)
		for _, x := range float32s(eps["obs"]) {
			last = append(last, float64(x))
		}
		for name, c := range map[string][2]any{
			"traj.obs": {float32s(traj["obs"]), tc.obs},
			"traj.tr":  {payload(traj["tr"]), tc.truncated},
			"traj.inv": {payload(traj["inv"]), tc.invalid},
			"eps.obs":  {last, tc.last},
			"eps.info": {floats(eps["info"].(m)["way"]), tc.info},
		} {
			if diff := cmp.Diff(c[1], c[0]); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", tc.autoreset, name, diff)
			}
		}
	}
}

// A rollout of episodes ends with the step that ends the last of them: 2 episodes of 3 steps are 6
// in SAME_STEP.
func TestRolloutOfEpisodes(t *testing.T) {
	got := handle(t, walking(t, newConfig(), "SAME_STEP", 0), m{"t": "rollout", "id": 4, "eid": 1, "name": "two", "episodes": 2})
	if norm(got["steps"]) != int64(6) || got["cut"] != nil {
		t.Errorf("%v steps, cut %v; want 6, all that was asked for", got["steps"], got["cut"])
	}
	if l := ints(got["eps"].(m)["l"]); !cmp.Equal(l, []int64{3, 3, 3, 3}) {
		t.Errorf("lengths %v, want 3 of each", l)
	}
}

// A rollout whose transitions fill a reply is cut, and the reply keeps the limit.
func TestRolloutFillsReply(t *testing.T) {
	for _, arrays := range []bool{true, false} {
		cfg := newConfig()
		cfg.Limits.MsgOut = 20_000
		s := walking(t, cfg, "SAME_STEP", 0)
		got := handle(t, s, m{"t": "rollout", "id": 4, "eid": 1, "name": "two", "episodes": 1000, "arrays": arrays})
		if got["t"] != "rollout.ok" || got["cut"] != true {
			t.Errorf("arrays %v: %v, want a rollout that is cut", arrays, got)
		}
		if n := len(s.out.Bytes()); n > 20_000 || n < 10_000 {
			t.Errorf("arrays %v: a reply of %d bytes, want 10,000 to 20,000", arrays, n)
		}
	}
}

// Images travel without their alpha, three bytes a pixel.
func TestRenderPixels(t *testing.T) {
	got := handle(t, walking(t, newConfig(), "NEXT_STEP", 0), m{"t": "render", "id": 4, "eid": 1, "mode": "rgb_array"})
	if want := []byte{200, 0, 0, 0, 201, 0, 0, 0, 202}; !cmp.Equal(payload(got["frame"]), want) {
		t.Errorf("frame %v, want %v", payload(got["frame"]), want)
	}
}

// A snapshot remembers which environments have a random stream; fork copies that, too.
func TestSnapshotKeepsSeeds(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		hello12,
		{m{"t": "make", "id": 2, "env": "test/Walk-v0", "n": 2}, m{"eid": 1}},
		{m{"t": "snapshot", "id": 3, "eid": 1}, m{"snap": 1}},
		{m{"t": "reset", "id": 4, "eid": 1, "seed": 5}, m{"seed": nil}},
		{m{"t": "restore", "id": 5, "eid": 1, "snap": 1}, m{"t": "restore.ok"}},
		{m{"t": "reset", "id": 6, "eid": 1}, m{"seed": 1002}}, // drawn: the restored environments had none
		{m{"t": "make", "id": 7, "env": "test/Walk-v0", "n": 2}, m{"eid": 2}},
		{m{"t": "reset", "id": 8, "eid": 2, "mask": []bool{true, false}, "seed": 5}, m{"t": "reset.ok"}},
		{m{"t": "fork", "id": 9, "eid": 2, "from": 0, "to": []int{1}}, m{"t": "fork.ok"}},
		{m{"t": "reset", "id": 10, "eid": 2}, m{"t": "reset.ok", "seed": nil}}, // the fork has a stream
	})
}

// What a server counts and observes: requests, steps, how long a step takes, errors about a vector.
func TestCounts(t *testing.T) {
	cfg := newConfig()
	now := time.Unix(0, 0)
	cfg.Now = func() time.Time { now = now.Add(time.Millisecond); return now }
	var observed []time.Duration
	cfg.OnStep = func(d time.Duration) { observed = append(observed, d) }
	s := walking(t, cfg, "NEXT_STEP", 0)
	play(t, s, []line{
		{m{"t": "step", "id": 4, "eid": 1, "a": []int{0, 0}}, m{"t": "step.ok"}},
		{m{"t": "step", "id": 5, "eid": 1, "a": []int{0, 7}}, m{"t": "err", "eid": 1}},
	})
	if frames, steps := cfg.Shared.Frames.Load(), cfg.Shared.Steps.Load(); frames != 5 || steps != 2 {
		t.Errorf("%d requests and %d steps are counted, want 5 and 2", frames, steps)
	}
	if want := []time.Duration{time.Millisecond}; !cmp.Equal(observed, want) {
		t.Errorf("steps of %v, want %v: the clock advances 1 ms from reading to reading", observed, want)
	}
	p50 := handle(t, s, m{"t": "stats", "id": 6, "eid": 1})["step_us_p50"].(float64)
	if math.Abs(p50/1000-1) > 0.1 {
		t.Errorf("median %v µs, want 1000 within a bucket", p50)
	}
}

// Refusals for want of room say when to try again, and those that a deadline causes come before the work.
func TestRefusalsInTime(t *testing.T) {
	cfg := newConfig()
	cfg.Limits.Sessions, cfg.Limits.EnvsSession, cfg.Limits.Inflight = 1, 1, 1
	s := newSession(t, cfg)
	play(t, s, []line{
		helloLine,
		{m{"t": "make", "id": 2, "env": "test/Walk-v0", "n": 2}, m{"reason": string(wire.TooManyEnvs), "retry_after_ms": 1000}},
		{m{"t": "make", "id": 3, "env": "test/Walk-v0", "options": m{"data": 1}}, refused(3, wire.InvalidOption)},
		{m{"t": "make", "id": 4, "env": "test/Walk-v0"}, m{"eid": 1}},
		{m{"t": "reset", "id": 5, "eid": 1}, m{"t": "reset.ok"}},
	})
	play(t, newSession(t, cfg), []line{
		{m{"t": "hello", "id": 1, "ver": []int{1, 0}}, m{"reason": string(wire.TooManySession), "retry_after_ms": 1000}},
	})
	// One request waits; a refused second one leaves no trace.
	first := &Request{Data: pack(t, m{"t": "step", "id": 6, "eid": 1, "a": 0, "dl": 0})}
	if reply := s.Admit(first); reply != nil {
		t.Fatalf("a step is answered at arrival: %v", unpack(t, reply))
	}
	for id := 7; id < 9; id++ {
		if got := unpack(t, s.Admit(&Request{Data: pack(t, m{"t": "step", "id": id, "eid": 1, "a": 0})})); got["reason"] != string(wire.Inflight) {
			t.Errorf("request %d beside one that waits: %v, want %s", id, got, wire.Inflight)
		}
	}
	if got := unpack(t, s.Do(ctx, first)); got["reason"] != string(wire.Deadline) {
		t.Errorf("a step whose deadline has passed: %v, want %s", got, wire.Deadline)
	}
	play(t, s, []line{
		{m{"t": "stats", "id": 9, "eid": 1}, m{"steps": 0}},
	})
}

// Every request about a vector is refused where there is no such vector, or a field has a wrong type.
func TestRequestsWithoutVector(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		{m{"t": "hello", "id": 1, "ver": "1.0"}, refused(1, wire.BadField)},
		{m{"t": "hello", "id": 2, "ver": []int{1, 2}}, m{"t": "welcome"}},
		{m{"t": "make", "id": 3, "env": "test/Walk-v0", "n": 2}, m{"eid": 1}},
		{m{"t": "reset", "id": 4, "eid": 1}, m{"t": "reset.ok"}},
		{m{"t": "envs", "id": 5, "filter": 7}, refused(5, wire.BadField)},
	})
	id := 10
	for _, kind := range []string{"reset", "step", "policy", "rollout", "snapshot", "restore", "fork", "forget", "render", "stats", "close"} {
		play(t, s, []line{
			{m{"t": kind, "id": id, "eid": 9, "a": []int{0, 0}}, refused(id, wire.UnknownEID)},
			{m{"t": kind, "id": id + 1, "eid": "x", "a": []int{0, 0}}, refused(id+1, wire.BadField)},
			{m{"t": kind, "id": id + 2, "a": []int{0, 0}}, refused(id+2, wire.BadField)},
		})
		id += 3
	}
	play(t, s, []line{
		{m{"t": "render", "id": 100, "eid": 1, "mode": 5}, refused(100, wire.BadField)},
		{m{"t": "fork", "id": 101, "eid": 1, "from": "x", "to": []int{1}}, refused(101, wire.BadField)},
		{m{"t": "policy", "id": 102, "eid": 1, "name": "two", "seed": "x"}, refused(102, wire.BadField)},
		{m{"t": "rollout", "id": 103, "eid": 1, "name": "two", "steps": "x"}, refused(103, wire.BadField)},
		{m{"t": "stats", "id": 104, "eid": 1}, m{"steps": 0}},
	})
}

// faulty cannot be drawn, nor closed.
type faulty struct{ walk }

func (*faulty) RenderANSI(*cluster.State) string     { panic("a secret of the server") }
func (*faulty) RenderRGB(*cluster.State) *image.RGBA { return nil }
func (*faulty) Close() error                         { return errors.New("a secret of the server") }
func (*faulty) Clone(*rand.Rand) envs.Task           { return &faulty{} }

func init() {
	envs.Register(&envs.Spec{
		ID: "test/Faulty-v0", RenderModes: []string{"ansi"}, Info: []envs.Column{{Name: "way", DType: "float64"}},
		Open: func(map[string]any) (envs.Maker, error) {
			return func() (envs.Task, error) { return &faulty{}, nil }, nil
		},
	})
}

// A panic is a refusal without its cause, and the session continues; so is an environment that
// cannot be closed, and its room is free.
func TestFaults(t *testing.T) {
	cfg := newConfig()
	s := newSession(t, cfg)
	play(t, s, []line{
		helloLine,
		{m{"t": "make", "id": 2, "env": "test/Faulty-v0"}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1}, m{"t": "reset.ok"}},
	})
	got := handle(t, s, m{"t": "render", "id": 4, "eid": 1, "mode": "ansi"})
	if got["reason"] != string(wire.ServerFault) || norm(got["id"]) != int64(4) || strings.Contains(got["msg"].(string), "secret") {
		t.Errorf("a render that panics: %v, want %s without the cause", got, wire.ServerFault)
	}
	got = handle(t, s, m{"t": "close", "id": 5, "eid": 1})
	if got["code"] != string(wire.Internal) {
		t.Errorf("a close that fails: %v, want %s", got, wire.Internal)
	}
	play(t, s, []line{{m{"t": "stats", "id": 6, "eid": 1}, refused(6, wire.UnknownEID)}})
	for range 2 { // the second does nothing
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if sessions, open := cfg.Shared.Sessions.Load(), cfg.Shared.Envs.Load(); sessions != 0 || open != 0 {
		t.Errorf("%d sessions and %d environments are open, want none", sessions, open)
	}
}
