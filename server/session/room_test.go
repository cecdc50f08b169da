package session

import (
	"bytes"
	"testing"
)

// Replies that are written to memory of the caller equal those in memory of the session, and those that do not fit
// there lie elsewhere.
func TestRoom(t *testing.T) {
	own, lent := newSession(t, newConfig()), newSession(t, newConfig())
	memory := bytes.Repeat([]byte{77}, 1<<20)
	for k, message := range []m{
		{"t": "hello", "ver": []int{1, 8}},
		{"t": "make", "env": "classic/CartPole-v1", "n": 64},
		{"t": "reset", "eid": 1, "seed": 5},
		{"t": "step", "eid": 1, "a": make([]int, 64)},
		{"t": "rollout", "eid": 1, "name": "random", "steps": 400, "seed": 3, "arrays": true}, // a large one
		{"t": "step", "eid": 1, "a": make([]int, 64)},
		{"t": "step", "eid": 1, "a": "left"}, // refused
		{"t": "step", "eid": 1, "a": make([]int, 64)},
	} {
		message["id"] = k + 1
		data := pack(t, message)
		if k == 0 {
			for _, s := range []*Session{own, lent} {
				if reply := s.Admit(&Request{Data: data}); reply == nil {
					t.Fatal("no welcome")
				}
			}
			continue
		}
		room := []int{0, 3, len(memory)}[k%3]
		clear(memory)
		plain, roomy := &Request{Data: data}, &Request{Data: bytes.Clone(data), Room: memory[:0:room]}
		for s, r := range map[*Session]*Request{own: plain, lent: roomy} {
			if reply := s.Admit(r); reply != nil {
				t.Fatalf("request %d is refused: %q", k, reply)
			}
		}
		want, got := own.Do(ctx, plain), lent.Do(ctx, roomy)
		if !bytes.Equal(got, want) && k > 1 {
			t.Errorf("reply %d to a room of %d bytes: %.80q, want %.80q", k, room, got, want)
		}
		if inside := &got[0] == &memory[0]; inside != (len(got) <= room) {
			t.Errorf("reply %d of %d bytes lies in a room of %d bytes: %v", k, len(got), room, inside)
		}
		if !bytes.Equal(memory[room:], make([]byte, len(memory)-room)) {
			t.Errorf("reply %d was written beyond its room of %d bytes", k, room)
		}
	}
}
