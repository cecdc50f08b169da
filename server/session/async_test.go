package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/server/wire"
)

// int32s returns the elements of an array of int32.
func int32s(v any) []int {
	a, ok := v.(*array)
	if !ok {
		return nil
	}
	b := payload(a)
	out := []int{}
	for i := 0; i < len(b); i += 4 {
		out = append(out, int(b[i])|int(b[i+1])<<8)
	}
	return out
}

// TestSendRecv: steps of some rows end while another one waits, and other requests are refused meanwhile. Row numbers
// are worked out by hand.
func TestSendRecv(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		{m{"t": "hello", "id": 1, "ver": []int{1, 5}}, m{"t": "welcome"}},
		{m{"t": "make", "id": 2, "env": "test/Trouble-v0", "n": 4, "autoreset": "SAME_STEP"}, m{"eid": 1}},
		{m{"t": "send", "id": 3, "eid": 1, "a": []int{0, 0, 0, 0}}, refused(3, wire.ResetNeeded)},
		{m{"t": "reset", "id": 4, "eid": 1, "seed": 1}, m{"t": "reset.ok"}},
		{m{"t": "recv", "id": 5, "eid": 1}, refused(5, wire.NotSent)},
		{m{"t": "send", "id": 6, "eid": 1, "idx": []int{3, 1, 2}, "a": []int{0, 3, 4}}, m{"t": "send.ok"}}, // row 1 waits
		{m{"t": "step", "id": 7, "eid": 1, "a": []int{0, 0, 0, 0}}, refused(7, wire.Pending)},
		{m{"t": "reset", "id": 8, "eid": 1}, refused(8, wire.Pending)},
		{m{"t": "send", "id": 9, "eid": 1, "idx": []int{1}, "a": []int{0}}, refused(9, wire.Pending)},
		{m{"t": "send", "id": 10, "eid": 1, "idx": []int{0}, "a": []int{9}}, refused(10, wire.InvalidAction)},
		{m{"t": "send", "id": 11, "eid": 1, "idx": []int{4}, "a": []int{0}}, refused(11, wire.BadField)},
		{m{"t": "send", "id": 12, "eid": 1, "idx": []int{0}}, refused(12, wire.BadField)},
		{m{"t": "recv", "id": 13, "eid": 1, "min": 5}, refused(13, wire.BadField)},
		{m{"t": "recv", "id": 14, "eid": 1, "min": 2, "max": 1}, refused(14, wire.BadField)},
		{m{"t": "recv", "id": 15, "eid": 1, "max": 0}, refused(15, wire.BadField)},
	})
	got := handle(t, s, m{"t": "recv", "id": 20, "eid": 1, "min": 2})
	if rows := int32s(got["idx"]); got["t"] != "recv.ok" || !slices.Equal(rows, []int{2, 3}) {
		t.Fatalf("recv: %v with rows %v, want 2 and 3", got, rows)
	}
	fin, _ := got["fin"].(m)
	if te, idx := payload(got["te"]), int32s(fin["idx"]); string(te) != "\x01\x00" || !slices.Equal(idx, []int{0}) {
		t.Errorf("te %v and fin.idx %v, want the first row of the reply", te, idx)
	}
	if got := handle(t, s, m{"t": "recv", "id": 21, "eid": 1, "wait_ms": 1}); got["t"] != "recv.ok" || len(int32s(got["idx"])) != 0 {
		t.Errorf("recv of what has not ended: %v, want no rows", got)
	}
	play(t, s, []line{
		{m{"t": "recv", "id": 22, "eid": 1, "dl": 20}, refused(22, wire.Deadline)},
		{m{"t": "stats", "id": 23, "eid": 1}, m{"steps": 2, "episodes": 1}},
	})
	release <- struct{}{}
	if got := handle(t, s, m{"t": "recv", "id": 24, "eid": 1}); !slices.Equal(int32s(got["idx"]), []int{1}) {
		t.Errorf("recv of the row that waited: %v", got)
	}
	play(t, s, []line{
		{m{"t": "step", "id": 25, "eid": 1, "a": []int{0, 0, 0, 0}}, m{"t": "step.ok"}},
		{m{"t": "send", "id": 26, "eid": 1, "idx": []int{0, 1}, "a": []int{1, 3}}, m{"t": "send.ok"}},
		{m{"t": "recv", "id": 27, "eid": 1}, refused(27, wire.EnvFailed)},
		{m{"t": "close", "id": 28, "eid": 1}, m{"t": "close.ok"}}, // though row 1 waits
	})
}

// Steps that are pending end with the session.
func TestPendingStepsEnd(t *testing.T) {
	s := New(newConfig(), nil)
	for _, v := range []m{
		{"t": "hello", "id": 1, "ver": []int{1, 5}}, {"t": "make", "id": 2, "env": "test/Trouble-v0"},
		{"t": "reset", "id": 3, "eid": 1}, {"t": "send", "id": 4, "eid": 1, "a": 3},
	} {
		handle(t, s, v)
	}
	a := s.vecs[1].async
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { a.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("a step runs on after the end of its session")
	}
}

// TestEnvError: with env_error a failing row is truncated and named, and hides its cause; a session of 1.4 cannot ask for it.
func TestEnvError(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		{m{"t": "hello", "id": 1, "ver": []int{1, 5}}, m{"t": "welcome"}},
		{m{"t": "make", "id": 2, "env": "test/Trouble-v0", "n": 3, "env_error": true}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1, "seed": 1}, m{"t": "reset.ok", "env_error": nil}},
	})
	got := handle(t, s, m{"t": "step", "id": 4, "eid": 1, "a": []int{0, 2, 0}})
	failed, _ := got["env_error"].(m)
	msgs, _ := failed["msg"].([]any)
	if !slices.Equal(int32s(failed["idx"]), []int{1}) || len(msgs) != 1 || string(payload(got["tr"])) != "\x00\x01\x00" {
		t.Fatalf("a panic of row 1: %v", got)
	}
	if text := msgs[0].(string); len(text) > 256 || !errorID.MatchString(text) {
		t.Errorf("the message %q, want the id of the log's line", text)
	}
	play(t, s, []line{
		{m{"t": "step", "id": 5, "eid": 1, "a": []int{0, 0, 0}}, m{"t": "step.ok", "tr": nil, "env_error": nil}},
		{m{"t": "send", "id": 6, "eid": 1, "idx": []int{2}, "a": []int{1}}, m{"t": "send.ok"}},
	})
	got = handle(t, s, m{"t": "recv", "id": 7, "eid": 1})
	if failed, _ := got["env_error"].(m); !slices.Equal(int32s(failed["idx"]), []int{0}) || !slices.Equal(int32s(got["idx"]), []int{2}) {
		t.Errorf("a failure of row 2, received alone: %v", got)
	}
	old := newSession(t, newConfig())
	play(t, old, []line{
		{m{"t": "hello", "id": 1, "ver": []int{1, 4}}, m{"t": "welcome"}},
		{m{"t": "make", "id": 2, "env": "test/Trouble-v0", "env_error": true, "obs_keys": []string{"x"}}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1, "seed": 1}, m{"t": "reset.ok"}},
		{m{"t": "step", "id": 4, "eid": 1, "a": 2}, refused(4, wire.EnvFailed)},
		{m{"t": "send", "id": 5, "eid": 1, "a": 2}, refused(5, wire.IsReserved)},
	})
}

// TestObsKeys: the chosen parts of a Dict are those of the whole, in its order, also in spaces and last observations.
func TestObsKeys(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		{m{"t": "hello", "id": 1, "ver": []int{1, 5}}, m{"t": "welcome"}},
		{m{"t": "make", "id": 2, "env": "classic/CartPole-v1", "obs_keys": []string{"x"}}, refused(2, wire.InvalidOption)},
		{m{"t": "make", "id": 3, "env": "test/Parts-v0", "obs_keys": []string{"x"}}, refused(3, wire.InvalidOption)},
		{m{"t": "make", "id": 4, "env": "test/Parts-v0", "obs_keys": []string{}}, refused(4, wire.InvalidOption)},
		{m{"t": "make", "id": 5, "env": "test/Parts-v0", "obs_keys": 3}, refused(5, wire.BadField)},
		{m{"t": "make", "id": 6, "env": "test/Parts-v0", "n": 2, "autoreset": "SAME_STEP"}, m{"eid": 1}},
	})
	made := handle(t, s, m{"t": "make", "id": 7, "env": "test/Parts-v0", "n": 2, "autoreset": "SAME_STEP", "obs_keys": []string{"third", "first"}})
	keys := made["obs_space"].(m)["keys"].([]any)
	if len(keys) != 2 || keys[0] != "first" || keys[1] != "third" || len(made["obs_space"].(m)["parts"].([]any)) != 2 {
		t.Errorf("the space %v, want first and third", made["obs_space"])
	}
	for id := 10; id < 18; id += 2 {
		request := m{"t": "step", "a": []int{id % 2, 0}}
		if id == 10 {
			request = m{"t": "reset", "seed": 7}
		}
		var obs [2][]m
		for eid := 1; eid <= 2; eid++ {
			request["id"], request["eid"] = id+eid-1, eid
			got := handle(t, s, request)
			if got["t"] == "err" {
				t.Fatal(got)
			}
			obs[eid-1] = append(obs[eid-1], got["obs"].(m))
			if fin, ok := got["fin"].(m); ok {
				obs[eid-1] = append(obs[eid-1], fin["obs"].(m))
			}
		}
		if id == 16 && len(obs[0]) != 2 { // the third step ends
			t.Error("no last observation")
		}
		for k, part := range obs[1] {
			whole := obs[0][k]
			if len(part) != 2 || len(whole) != 3 || string(payload(part["first"])) != string(payload(whole["first"])) || string(payload(part["third"])) != string(payload(whole["third"])) {
				t.Errorf("parts %v of %v", part, whole)
			}
		}
	}
}

// shaky is an environment whose next begin fails while brittle is set.
type shaky struct{ trouble }

var brittle atomic.Bool

func (shaky) Begin(context.Context, cluster.Cluster, *rand.Rand) error {
	if brittle.Swap(false) {
		return errors.New("no instance")
	}
	return nil
}

func init() {
	envs.Register(&envs.Spec{ID: "test/Shaky-v0", Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) { return shaky{}, nil }, nil
	}})
}

// TestEnvErrorOfResets: a reset in which one environment gets a seed and the other continues reports a failure of either.
func TestEnvErrorOfResets(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		{m{"t": "hello", "id": 1, "ver": []int{1, 5}}, m{"t": "welcome"}},
		{m{"t": "make", "id": 2, "env": "test/Shaky-v0", "n": 2, "env_error": true, "threads": 1}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1, "seed": 1}, m{"t": "reset.ok", "env_error": nil}},
	})
	for k, seeds := range [][]any{{7, nil}, {nil, 7}} {
		brittle.Store(true) // the environment with the seed is reset first
		got := handle(t, s, m{"t": "reset", "id": 4 + k, "eid": 1, "seed": seeds})
		if failed, _ := got["env_error"].(m); !slices.Equal(int32s(failed["idx"]), []int{k}) {
			t.Errorf("reset with seeds %v: %v, want env_error of environment %d", seeds, got, k)
		}
	}
	play(t, s, []line{{m{"t": "reset", "id": 6, "eid": 1, "seed": []any{7, nil}}, m{"t": "reset.ok", "env_error": nil}}})
}
