package session

import (
	"testing"

	"github.com/kubernasium/kubernasium/server/wire"
)

// FuzzSession gives a session that has a vector two frames of any bytes: each gets one reply
// that can be read, and the session lives.
func FuzzSession(f *testing.F) {
	for _, v := range []m{
		{"t": "make", "id": 10, "env": "test/Timing-v0", "n": 2, "options": m{"x": 1}},
		{"t": "reset", "id": 10, "eid": 1, "seed": []any{1, nil}, "mask": []bool{true, false}, "options": m{}},
		{"t": "step", "id": 10, "eid": 1, "a": []int{0, 1}},
		{"t": "render", "id": 10, "eid": 1, "mode": "rgb_array", "idx": 1},
		{"t": "stats", "id": 10, "eid": 1, "dl": 5},
		{"t": "rollout", "id": 10, "eid": 1, "name": "planner", "steps": 5, "arrays": true},
		{"t": "rollout", "id": 10, "eid": 1, "name": "random", "seed": 1, "episodes": 2},
		{"t": "snapshot", "id": 10, "eid": 1},
		{"t": "restore", "id": 10, "eid": 1, "snap": 1},
		{"t": "forget", "id": 10, "eid": 1, "snap": 1},
		{"t": "fork", "id": 10, "eid": 1, "from": 0, "to": []int{1, 0}},
		{"t": "policy", "id": 10, "eid": 1, "name": "two", "seed": 3},
		{"t": "step", "id": 10, "eid": 1, "a": []int{2, 2}, "policy": "two"},
		{"t": "send", "id": 10, "eid": 1, "a": []int{0, 1}, "idx": []int{1, 0}},
		{"t": "send", "id": 10, "eid": 1, "a": []int{0}, "idx": []int{1}},
		{"t": "recv", "id": 10, "eid": 1, "min": 1, "max": 2, "wait_ms": 5},
		{"t": "make", "id": 10, "env": "test/Parts-v0", "obs_keys": []string{"first"}, "env_error": true},
		{"t": "state", "id": 10, "eid": 1},
		{"t": "load", "id": 10, "eid": 1, "state": []byte("kstate1\n0000\x0ftest/Planned-v0\x00\x02\x01\x00\x00\x00")},
		{"t": "close", "id": 10, "eid": 1},
		{"t": "envs", "id": 10, "filter": "x"},
		{"t": "ping", "id": 10, "ts": m{"a": []any{nil, 1.5}}},
		{"t": "hello", "id": 10, "ver": []int{1, 0}},
	} {
		f.Add(pack(f, v), pack(f, v))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		cfg := newConfig()
		cfg.Limits.EnvsMake, cfg.Limits.MsgOut, cfg.Limits.Rollout = 8, 1<<20, 50
		s := newSession(t, cfg)
		for _, v := range []m{
			{"t": "hello", "id": 1, "ver": []int{1, 7}},
			{"t": "make", "id": 2, "env": "test/Planned-v0", "n": 2, "state": true},
			{"t": "reset", "id": 3, "eid": 1, "seed": 1},
			{"t": "snapshot", "id": 4, "eid": 1},
		} {
			answer(ctx, s, pack(t, v))
		}
		for _, data := range [][]byte{first, second} {
			var reply wire.Frame
			if err := reply.Parse(answer(ctx, s, data), wire.DefaultBounds); err != nil {
				t.Fatalf("the reply to %x: %v", data, err)
			}
		}
	})
}
