package host

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
)

// TestLateResume: another connection has just taken a session and does not serve it yet. One that asks for it then must
// try again: an answer that there is no such session would make its client give up the environments.
func TestLateResume(t *testing.T) {
	limits := wire.DefaultLimits()
	s := New(Config{Limits: limits, Version: "test", DrainFor: time.Second, Log: slog.New(slog.DiscardHandler)})
	ours, theirs := net.Pipe()
	c := newConn(s, theirs, newUnixStream(theirs, limits.MsgIn), nil)
	s.add(c)
	go s.run(c)
	w, welcome := wire.NewWriter(), wire.Welcome{}
	for _, message := range []any{
		&wire.Hello{T: wire.TypeHello, ID: 1, Ver: []int{1, 5}, Caps: []string{wire.CapResume}},
		&wire.MakeRequest{T: wire.TypeMake, ID: 2, Env: "test/Naps-v0"},
	} {
		w.Reset()
		if err := w.Encode(message); err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(w.Bytes()))), w.Bytes()...)); err != nil {
			t.Fatal(err)
		}
		var head [4]byte
		if _, err := io.ReadFull(ours, head[:]); err != nil {
			t.Fatal(err)
		}
		reply := make([]byte, binary.LittleEndian.Uint32(head[:]))
		if _, err := io.ReadFull(ours, reply); err != nil {
			t.Fatal(err)
		}
		var f wire.Frame
		if err := f.Parse(reply, limits.Bounds()); err != nil {
			t.Fatal(err)
		}
		if string(f.Type) == wire.TypeWelcome {
			if err := f.Decode(&welcome); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := ours.Close(); err != nil {
		t.Fatal(err)
	}
	first, err := s.resume(welcome.SID, welcome.ResumeToken)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.resume(welcome.SID, welcome.ResumeToken)
	if e, ok := errors.AsType[*wire.Error](err); !ok || e.Reason != wire.Running {
		t.Errorf("the second connection gets %v, want %s", err, wire.Running)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
