package session

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// payload returns the elements of an array of bytes in a reply.
func payload(v any) []byte {
	p := v.(*array).payload
	return p[4+4*int(p[2])+int(p[3]):]
}

// Timing(3) pays 1, 2, 3 and ends; its odd moments permit action 1. Hand-worked: in SAME_STEP
// the third step returns the first observation of the next episode, whose mask forbids 1.
func TestSameStep(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		helloLine,
		{m{"t": "make", "id": 2, "env": "test/Timing-v0", "n": 2, "autoreset": "SAME_STEP"}, m{"autoreset": "SAME_STEP"}},
	})
	got := handle(t, s, m{"t": "reset", "id": 3, "eid": 1, "seed": 1})
	if want := []byte{1, 0, 1, 0}; string(payload(got["mask"])) != string(want) {
		t.Errorf("mask after reset %v, want %v", payload(got["mask"]), want)
	}
	got = handle(t, s, m{"t": "step", "id": 4, "eid": 1, "a": []int{0, 1}})
	if want := []byte{0, 1}; string(payload(got["inv"])) != string(want) {
		t.Errorf("inv %v, want %v: action 1 was masked", got["inv"], want)
	}
	if _, ok := got["mask"]; ok {
		t.Errorf("mask %v, want none: all is permitted", got["mask"])
	}
	handle(t, s, m{"t": "step", "id": 5, "eid": 1, "a": []int{0, 0}})
	got = handle(t, s, m{"t": "step", "id": 6, "eid": 1, "a": []int{0, 0}})
	if want := []byte{1, 1}; string(payload(got["te"])) != string(want) {
		t.Errorf("te %v, want %v", got["te"], want)
	}
	fin, ep := got["fin"].(m), got["ep"].(m)
	// 0.1·3 as float32, little-endian.
	if want := "\x9a\x99\x99\x3e\x9a\x99\x99\x3e"; string(payload(fin["obs"])) != want || string(payload(got["obs"])) != string(make([]byte, 8)) {
		t.Errorf("final observations %x, observations %x; want %x and zeros", payload(fin["obs"]), payload(got["obs"]), want)
	}
	if _, ok := fin["mask"]; ok { // moment 3 is odd
		t.Errorf("final mask %v, want none: all is permitted", fin["mask"])
	}
	for _, idx := range []any{fin["idx"], ep["idx"]} {
		if want := "\x00\x00\x00\x00\x01\x00\x00\x00"; string(payload(idx)) != want {
			t.Errorf("idx %x, want %x", payload(idx), want)
		}
	}
	if want := "\x03\x00\x00\x00\x00\x00\x00\x00"; string(payload(ep["l"])[:8]) != want {
		t.Errorf("ep.l %x, want 3", payload(ep["l"]))
	}
	if want := "\x00\x00\x00\x00\x00\x00\x18\x40"; string(payload(ep["r"])[:8]) != want { // 1+2+3 = 6.0
		t.Errorf("ep.r %x, want 6.0", payload(ep["r"]))
	}
}

// The catalog holds what is registered, with no list nil.
func TestCatalog(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{helloLine})
	list := handle(t, s, m{"t": "envs", "id": 2, "filter": "CartPole"})["envs"].([]any)
	if len(list) != 1 {
		t.Fatalf("%d environments match, want 1", len(list))
	}
	spec := list[0].(m)
	if spec["id"] != "classic/CartPole-v1" || spec["reward_threshold"] != 475.0 || norm(spec["max_episode_steps"]) != int64(500) {
		t.Errorf("spec %v", spec)
	}
	for _, key := range []string{"render_modes", "options", "info", "metrics", "baselines"} {
		if _, ok := spec[key].([]any); !ok {
			t.Errorf("%s is %T, want a list", key, spec[key])
		}
	}
	if got := len(handle(t, s, m{"t": "envs", "id": 3})["envs"].([]any)); got != len(envs.Specs()) {
		t.Errorf("%d environments, want %d", got, len(envs.Specs()))
	}
}

func TestRender(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		helloLine,
		{m{"t": "make", "id": 2, "env": "classic/CartPole-v1", "n": 2}, m{"eid": 1}},
		{m{"t": "render", "id": 3, "eid": 1, "mode": "ansi"}, refused(3, wire.ResetNeeded)},
		{m{"t": "reset", "id": 4, "eid": 1, "mask": []bool{true, false}}, m{"t": "reset.ok"}},
		{m{"t": "render", "id": 5, "eid": 1, "mode": "human"}, refused(5, wire.BadField)},
		{m{"t": "render", "id": 6, "eid": 1, "mode": "ansi", "idx": 2}, refused(6, wire.BadField)},
		{m{"t": "render", "id": 7, "eid": 1, "mode": "ansi", "idx": 1}, refused(7, wire.ResetNeeded)},
		{m{"t": "render", "id": 8, "eid": 1, "mode": "rgb_array"}, m{"t": "render.ok"}},
	})
	if text, ok := handle(t, s, m{"t": "render", "id": 9, "eid": 1, "mode": "ansi"})["frame"].(string); !ok || text == "" {
		t.Errorf("frame %q, want text", text)
	}
}
