package host

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
)

// TestGate: of places for two, a third connection gets the oldest one's, once that has had its grace; one that has left
// holds no place. Time is simulated.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2)
		var ours, theirs [4]net.Conn
		for i := range ours {
			ours[i], theirs[i] = net.Pipe()
			defer ours[i].Close()
		}
		begin := time.Now()
		enter := func(i int, want time.Duration) {
			t.Helper()
			g.enter(theirs[i])
			if took := time.Since(begin); took != want {
				t.Errorf("connection %d enters after %v, want %v", i, took, want)
			}
		}
		enter(0, 0)
		time.Sleep(10 * time.Millisecond)
		enter(1, 10*time.Millisecond)
		enter(2, pendingGrace)
		if _, err := ours[0].Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the oldest connection: %v, want its end", err)
		}
		time.AfterFunc(5*time.Millisecond, func() { g.leave(theirs[1]) }) // before its grace is over
		enter(3, pendingGrace+5*time.Millisecond)
		_ = ours[1].SetReadDeadline(time.Now())
		if _, err := ours[1].Read(make([]byte, 1)); err == io.EOF {
			t.Error("a connection that has left the gate is closed")
		}
	})
}

// TestEndlessFrame: a peer that stops within a frame is cut off. Time is simulated.
func TestEndlessFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := wire.DefaultLimits()
		limits.HandshakeMS, limits.IdleMS = 0, 0
		s := New(Config{Limits: limits, Version: "test", DrainFor: time.Second, Log: slog.New(slog.DiscardHandler)})
		ours, theirs := net.Pipe()
		c := newConn(s, theirs, newUnixStream(theirs, limits.MsgIn), nil)
		s.add(c)
		go s.run(c)
		if _, err := ours.Write([]byte{0, 0, 128, 0, 1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := io.Copy(io.Discard, ours); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took < frameTimeout || took > frameTimeout+patrolEvery {
			t.Errorf("the connection ends after %v, want %v", took, frameTimeout)
		}
	})
}
