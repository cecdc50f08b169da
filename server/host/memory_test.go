package host_test

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/wire"
)

// TestIdleMemory opens sessions that each send a ping of 16 MiB, and then idle: 2,048 of them would hold less than 200 MiB.
func TestIdleMemory(t *testing.T) {
	const most, of = 200 << 20, 2048
	sessions := 256
	if testing.Short() {
		sessions = 32
	}
	s := host.New(host.Config{Limits: wire.DefaultLimits(), Version: "test", DrainFor: time.Second, Log: slog.New(slog.DiscardHandler)})
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		if err := s.ServeUnix(l); err != nil {
			t.Error(err)
		}
	})
	defer served.Wait()
	defer func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	hello := wire.NewWriter()
	if err := hello.Encode(&wire.Hello{T: wire.TypeHello, ID: 1, Ver: []int{1, 0}}); err != nil {
		t.Fatal(err)
	}
	ping := wire.NewWriter()
	ping.Head(3, wire.TypePing, 2)
	ping.Str("ts")
	ping.Str(string(make([]byte, 16<<20-64)))
	before := inUse()
	for range sessions {
		conn, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, frame := range [][]byte{hello.Bytes(), ping.Bytes()} {
			go func() {
				_, _ = conn.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(frame)))) // the read below fails then
				_, _ = conn.Write(frame)
			}()
			var head [4]byte
			if _, err := io.ReadFull(conn, head[:]); err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, conn, int64(binary.LittleEndian.Uint32(head[:]))); err != nil {
				t.Fatal(err)
			}
		}
	}
	held := inUse() - before
	for end := time.Now().Add(patience); held > most*int64(sessions)/of && time.Now().Before(end); held = inUse() - before {
		time.Sleep(5 * time.Millisecond) // a server frees the memory of a reply after the client has it
	}
	runtime.KeepAlive(ping) // before counts its 16 MiB
	if held > most*int64(sessions)/of {
		t.Errorf("%d idle sessions hold %d KiB each, want at most %d", sessions, held/int64(sessions)>>10, most/of>>10)
	} else {
		t.Logf("%d idle sessions hold %d KiB each", sessions, held/int64(sessions)>>10)
	}
}

// inUse returns the bytes of live objects and stacks.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
