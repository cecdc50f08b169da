package host_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	_ "github.com/kubernasium/kubernasium/envs/gang"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/server/wire"
)

// sharer is a raw client that shares memory with the server.
type sharer struct {
	t      testing.TB
	conn   *net.UnixConn
	fd     int
	memory []byte
	f      wire.Frame

	answered uint32 // requests in the memory with a reply
}

// Places in the memory, in bytes.
const (
	calledAt, asleepAt, requestAt      = 0, 4, 16
	repliedAt, serverAsleepAt, replyAt = 64, 68, 80
)

// word returns an integer of the memory.
func (c *sharer) word(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&c.memory[at])) }

// dialSharer says hello in a version, with parts, and maps the memory if the welcome offers it.
func dialSharer(t testing.TB, path string, minor int, caps ...string) *sharer {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: strings.TrimPrefix(path, "unix://"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	c := &sharer{t: t, conn: conn, fd: -1}
	t.Cleanup(func() {
		_ = conn.Close() // a test may have closed it
		if c.memory != nil {
			_ = unix.Munmap(c.memory)
			_ = unix.Close(c.fd)
		}
	})
	_ = conn.SetDeadline(time.Now().Add(patience))
	c.inline(encode(t, map[string]any{"t": "hello", "id": 1, "ver": []int{1, minor}, "caps": caps}))
	buf, oob := make([]byte, 4096), make([]byte, 256)
	n, k, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		t.Fatal(err)
	}
	size := int(binary.LittleEndian.Uint32(buf))
	if n != 4+size {
		t.Fatalf("%d bytes of the welcome, want %d", n, 4+size)
	}
	if err := c.f.Parse(buf[4:n], bounds()); err != nil {
		t.Fatal(err)
	}
	offered, _, err := c.f.Uint("shm")
	if err != nil {
		t.Fatal(err)
	}
	if (k > 0) != (offered > 0) {
		t.Fatalf("%d bytes of control data and memory of %d bytes, want both or none", k, offered)
	}
	if k == 0 {
		return c
	}
	messages, err := unix.ParseSocketControlMessage(oob[:k])
	if err != nil || len(messages) != 1 {
		t.Fatalf("control messages %v, %v", messages, err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("descriptors %v, %v", fds, err)
	}
	c.fd = fds[0]
	if c.memory, err = unix.Mmap(c.fd, 0, int(offered), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	return c
}

func bounds() wire.Bounds {
	limits := wire.DefaultLimits()
	return limits.Bounds()
}

func encode(t testing.TB, message map[string]any) []byte {
	t.Helper()
	w := wire.NewWriter()
	if err := w.Encode(message); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(w.Bytes())
}

func (c *sharer) raw(words ...uint32) {
	c.t.Helper()
	var data []byte
	for _, w := range words {
		data = binary.LittleEndian.AppendUint32(data, w)
	}
	if _, err := c.conn.Write(data); err != nil {
		c.t.Fatal(err)
	}
}

// inline sends a frame over the socket.
func (c *sharer) inline(frame []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
		c.t.Fatal(err)
	}
}

// call sends a frame in the memory, at from, and asks for the reply at, with room.
func (c *sharer) call(frame []byte, from, at, room int) {
	c.t.Helper()
	copy(c.memory[from:], frame)
	c.announce(uint32(len(frame)), uint32(from), uint32(at), uint32(room))
}

// announce announces a request in the memory.
func (c *sharer) announce(words ...uint32) {
	c.t.Helper()
	for i, w := range words {
		c.word(requestAt + 4*i).Store(w)
	}
	c.word(calledAt).Add(1)
	if c.word(serverAsleepAt).Load() != 0 {
		c.raw(0)
	}
}

func (c *sharer) read(n int) []byte {
	c.t.Helper()
	buf := make([]byte, n)
	for k := 0; k < n; {
		m, err := c.conn.Read(buf[k:])
		if err != nil {
			c.t.Fatal(err)
		}
		k += m
	}
	return buf
}

// reply returns the next frame from the server, and where it was: its offset in the memory, or -1 on the socket. quiet
// says that the memory announced it. It sleeps at once.
func (c *sharer) reply() (frame []byte, at int, quiet bool) {
	c.t.Helper()
	for {
		if c.memory != nil {
			c.word(asleepAt).Store(1)
			if replied := c.word(repliedAt).Load(); replied != c.answered {
				c.word(asleepAt).Store(0)
				c.answered = replied
				size, offset := c.word(replyAt).Load(), c.word(replyAt+4).Load()
				if offset == 1<<32-1 {
					frame, _, _ = c.reply()
					return frame, -1, true
				}
				return bytes.Clone(c.memory[offset:][:size]), int(offset), true
			}
		}
		size := binary.LittleEndian.Uint32(c.read(4))
		if size == 0 && c.memory != nil {
			continue
		}
		frame := c.read(int(size))
		if c.memory != nil && c.word(repliedAt).Load() != c.answered && c.word(replyAt+4).Load() == 1<<32-1 {
			c.answered, quiet = c.word(repliedAt).Load(), true
		}
		return frame, -1, quiet
	}
}

// refused reads a reply, which must be an error of that reason with that id.
func (c *sharer) refused(id uint64, reason string) {
	c.t.Helper()
	frame, _, _ := c.reply()
	if err := c.f.Parse(frame, bounds()); err != nil {
		c.t.Fatal(err)
	}
	got, err := c.f.Str("reason")
	if err != nil || string(c.f.Type) != "err" || c.f.ID != id || string(got) != reason {
		c.t.Fatalf("%s with id %d and reason %q, want err, %d, %q", c.f.Type, c.f.ID, got, id, reason)
	}
}

func (c *sharer) pings(id uint64) {
	c.t.Helper()
	c.inline(encode(c.t, map[string]any{"t": "ping", "id": id}))
	frame, _, _ := c.reply()
	if want := encode(c.t, map[string]any{"t": "ping.ok", "id": id}); len(frame) != len(want) {
		c.t.Fatalf("reply to a ping %q, want %q", frame, want)
	}
}

// mappings counts the memory that this process shares with itself: the server's and the clients'.
func mappings(t testing.TB) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(maps, []byte("memfd:kubernasium"))
}

// Replies in shared memory are those of the socket, byte for byte.
func TestSharedReplies(t *testing.T) {
	s := hosttest.Start(t)
	for _, env := range []map[string]any{
		{"env": "classic/CartPole-v1", "n": 64},
		{"env": "classic/CartPole-v1", "n": 3, "autoreset": "SAME_STEP"},
		{"env": "k8s/GangWindow-v0", "n": 16, "options": map[string]any{"instances": 2}},
	} {
		t.Run(fmt.Sprint(env["env"], env["n"]), func(t *testing.T) {
			shared, plain := dialSharer(t, s.Unix, 8, "shm"), dialSharer(t, s.Unix, 8)
			if len(shared.memory) != 64<<20 || plain.memory != nil {
				t.Fatalf("memory of %d and %d bytes, want 64 MiB where it was asked for", len(shared.memory), len(plain.memory))
			}
			rng := rand.New(rand.NewPCG(1, 2))
			n := env["n"].(int)
			for k := range 202 {
				message := map[string]any{"t": "step", "id": k + 2, "eid": 1}
				switch k {
				case 0:
					message = map[string]any{"t": "make", "id": 2}
					for key, value := range env {
						message[key] = value
					}
				case 1:
					message = map[string]any{"t": "reset", "id": 3, "eid": 1, "seed": 5}
				default:
					actions := make([]int, n)
					for i := range actions {
						actions[i] = rng.IntN(2)
					}
					message["a"] = actions
				}
				frame := encode(t, message)
				plain.inline(frame)
				want, _, _ := plain.reply()
				at := 20000 + 8*k
				shared.call(frame, 4096+k, at, 1<<20)
				got, where, _ := shared.reply()
				if where != at {
					t.Fatalf("reply %d at %d, want %d", k, where, at)
				}
				if bytes.Contains(got[:8], []byte("err")) {
					t.Fatalf("reply %d: %q", k, got)
				}
				if k > 0 && !bytes.Equal(got, want) || k == 0 && len(got) != len(want) {
					t.Fatalf("reply %d\n%q, want\n%q", k, got, want)
				}
			}
		})
	}
}

// A reply without room follows on the socket, and says so.
func TestSharedRoom(t *testing.T) {
	c := dialSharer(t, hosttest.Start(t).Unix, 8, "shm")
	c.memory[9000] = 77
	c.call(encode(t, map[string]any{"t": "ping", "id": 2}), 100, 9000, 3)
	frame, at, quiet := c.reply()
	if at != -1 || !quiet || !bytes.Contains(frame, []byte("ping.ok")) || c.memory[9000] != 77 {
		t.Errorf("reply %q at %d, announced %v, byte %d; want it on the socket, announced, and memory as it was", frame, at, quiet, c.memory[9000])
	}
	c.call(encode(t, map[string]any{"t": "ping", "id": 3}), len(c.memory)-12, len(c.memory)-64, 64) // to the last byte
	if _, at, _ := c.reply(); at != len(c.memory)-64 {
		t.Errorf("reply at %d, want %d", at, len(c.memory)-64)
	}
}

// A request in the memory comes before one that the client sends over the socket after it: ids ascend.
func TestSharedOrder(t *testing.T) {
	c := dialSharer(t, hosttest.Start(t).Unix, 8, "shm")
	for k := range 300 {
		first, second := uint64(2*k+2), uint64(2*k+3)
		c.call(encode(t, map[string]any{"t": "ping", "id": first}), 4096, 8192, 1000)
		c.inline(encode(t, map[string]any{"t": "ping", "id": second}))
		got := map[uint64]bool{}
		for range 2 {
			frame, _, quiet := c.reply()
			if err := c.f.Parse(frame, bounds()); err != nil {
				t.Fatal(err)
			}
			if string(c.f.Type) != "ping.ok" || quiet != (c.f.ID == first) {
				t.Fatalf("pair %d: %q with id %d, announced in the memory: %v", k, c.f.Type, c.f.ID, quiet)
			}
			got[c.f.ID] = true
		}
		if !got[first] || !got[second] {
			t.Fatalf("pair %d: replies to %v", k, got)
		}
	}
}

// Only a connection that asks for memory gets it.
func TestSharedIsAsked(t *testing.T) {
	s := hosttest.Start(t)
	for _, tc := range []struct {
		minor int
		caps  []string
		want  bool
	}{{8, []string{"shm"}, true}, {9, []string{"zstd", "shm"}, true}, {7, []string{"shm"}, false}, {8, nil, false}} {
		c := dialSharer(t, s.Unix, tc.minor, tc.caps...)
		if got := c.memory != nil; got != tc.want {
			t.Errorf("memory for version 1.%d with parts %v: %v, want %v", tc.minor, tc.caps, got, tc.want)
		}
		if got := bytes.Contains(c.f.Get("caps"), []byte("shm")); got != tc.want {
			t.Errorf("the welcome for 1.%d with %v names shm: %v, want %v", tc.minor, tc.caps, got, tc.want)
		}
		if tc.want {
			continue
		}
		c.raw(0) // an empty frame, for who has no memory
		c.refused(0, "MALFORMED")
	}
	ws := dial(t, s.WS)
	ws.write(encode(t, map[string]any{"t": "hello", "id": 1, "ver": []int{1, 8}, "caps": []string{"shm"}}))
	_, welcome, err := ws.ws.ReadMessage()
	if err != nil || bytes.Contains(welcome, []byte("shm")) {
		t.Errorf("welcome over WebSocket %q, %v; want none with shm", welcome, err)
	}
}

// Nobody can make the memory shorter, which would kill the server, or take that back.
func TestSharedIsSealed(t *testing.T) {
	c := dialSharer(t, hosttest.Start(t).Unix, 8, "shm")
	for _, size := range []int64{0, 4096, 1 << 30} {
		if err := unix.Ftruncate(c.fd, size); err != unix.EPERM {
			t.Errorf("truncate to %d: %v, want %v", size, err, unix.EPERM)
		}
	}
	if _, err := unix.FcntlInt(uintptr(c.fd), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE); err != unix.EPERM {
		t.Errorf("a client adds a seal: %v, want %v", err, unix.EPERM)
	}
	if err := unix.Fallocate(c.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 64<<20); err != nil {
		t.Fatal(err)
	}
	c.pings(2)
	c.call(encode(t, map[string]any{"t": "ping", "id": 3}), 4096, 8192, 1000)
	if frame, _, _ := c.reply(); !bytes.Contains(frame, []byte("ping.ok")) {
		t.Errorf("reply %q after holes were punched", frame)
	}
}

// Places outside the memory, and bytes that are no frame, are refused, and the session continues.
func TestSharedLies(t *testing.T) {
	s := hosttest.Start(t)
	c := dialSharer(t, s.Unix, 8, "shm")
	size := uint32(len(c.memory))
	id := uint64(1)
	for _, head := range [][4]uint32{
		{100, size - 99, 0, 100},
		{100, size, 0, 100},
		{100, 1<<32 - 50, 0, 100}, // the sum overflows 32 bits
		{100, 1<<32 - 1, 1<<32 - 1, 1<<32 - 1},
		{0, size + 1, 0, 0},
		{0, 128, 4096, 400},      // an empty frame
		{5000, 4096, 20000, 400}, // zeros
		{16 << 20, 0, 4096, 4},   // as long as a frame may be
	} {
		c.announce(head[:]...)
		c.refused(0, "MALFORMED")
		id++
		c.pings(id)
	}
	// Bytes that are no frame are answered in the memory, also if they claim to be compressed.
	packer := dialSharer(t, s.Unix, 8, "shm", "zstd")
	for _, junk := range []string{"junk", "\x28\xb5\x2f\xfdjunk"} {
		packer.call([]byte(junk), 4096, 8192, 1000)
		frame, at, quiet := packer.reply()
		if at != 8192 || !quiet || !bytes.Contains(frame, []byte("MALFORMED")) {
			t.Errorf("%q: reply %q at %d, announced in the memory: %v; want MALFORMED at 8192", junk, frame, at, quiet)
		}
	}
	// A frame that is right, with a wrong place for its reply, is not carried out.
	for _, place := range [][2]uint32{{size, 1}, {size - 99, 100}, {1, size}, {size + 1, 0}, {1<<32 - 1, 2}, {1<<32 - 1, 1<<32 - 1}} {
		id++
		ping := encode(t, map[string]any{"t": "ping", "id": id})
		copy(c.memory[4096:], ping)
		c.announce(uint32(len(ping)), 4096, place[0], place[1])
		c.refused(0, "MALFORMED")
		c.pings(id)
	}
	c.announce(16<<20+1, 0, 0, 0)
	c.refused(0, "TOO_LARGE")
	if _, err := c.conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection stands after a frame above the limit")
	}
}

// A client that writes to the memory all the time, its counters too, gets replies of some kind and harms nobody.
func TestSharedScribbles(t *testing.T) {
	s := hosttest.Start(t)
	c, other := dialSharer(t, s.Unix, 8, "shm"), dialSharer(t, s.Unix, 8, "shm")
	for _, one := range []*sharer{c, other} {
		one.inline(encode(t, map[string]any{"t": "make", "id": 2, "env": "classic/CartPole-v1", "n": 8}))
		one.reply()
		one.inline(encode(t, map[string]any{"t": "reset", "id": 3, "eid": 1, "seed": 1}))
		one.reply()
	}
	var stop atomic.Bool
	var all sync.WaitGroup
	var refused atomic.Int64
	t.Cleanup(func() { // before the memory is unmapped
		stop.Store(true)
		_ = c.conn.Close()
		all.Wait()
		if refused.Load() == 0 {
			t.Error("nothing was refused")
		}
	})
	all.Go(func() {
		rng := rand.New(rand.NewPCG(3, 4))
		for !stop.Load() {
			at := rng.IntN(128)
			if rng.IntN(4) > 0 {
				at = 4096 + rng.IntN(8192)
			}
			if at < requestAt || at >= requestAt+4 { // a frame above the limit would end the connection
				c.memory[at] = byte(rng.Uint32())
			}
		}
	})
	all.Go(func() { // wakes and refusals
		buf := make([]byte, 4096)
		for {
			n, err := c.conn.Read(buf)
			if err != nil {
				return
			}
			refused.Add(int64(n))
		}
	})
	step := func(k int) []byte {
		return encode(t, map[string]any{"t": "step", "id": k + 4, "eid": 1, "a": []int{0, 1, 0, 1, 0, 1, 0, 1}})
	}
	for k := range 2000 {
		frame := step(k)
		copy(c.memory[4096:], frame)
		for i, w := range []uint32{uint32(len(frame)), 4096, 8192, 4096} {
			c.word(requestAt + 4*i).Store(w)
		}
		c.word(calledAt).Add(1)
		_, _ = c.conn.Write(make([]byte, 4)) // the connection may have ended
		other.call(step(k), 4096, 8192, 4096)
		if frame, _, _ := other.reply(); !bytes.Contains(frame, []byte("step.ok")) {
			t.Fatalf("reply %q to another client", frame)
		}
	}
}

// The server frees the memory of clients that are gone, however they went.
func TestSharedIsFreed(t *testing.T) {
	before := mappings(t)
	s := hosttest.Start(t)
	var clients []*sharer
	for k := range 5 {
		c := dialSharer(t, s.Unix, 8, "shm")
		c.call(encode(t, map[string]any{"t": "make", "id": 2, "env": "test/Slow-v0", "n": 1}), 4096, 8192, 1<<20)
		c.reply()
		c.call(encode(t, map[string]any{"t": "reset", "id": 3, "eid": 1, "seed": 1}), 4096, 8192, 1<<20)
		c.reply()
		if k > 2 { // it goes while its step runs
			c.call(encode(t, map[string]any{"t": "step", "id": 4, "eid": 1, "a": []int{1}}), 4096, 8192, 1<<20)
			<-waiting
		}
		clients = append(clients, c)
	}
	if got := mappings(t) - before; got != 2*len(clients) {
		t.Fatalf("%d mappings of %d clients in this process, want two each", got, len(clients))
	}
	for k, c := range clients {
		if k == 0 {
			c.raw(100) // a part of a request
		}
		_ = c.conn.Close()
	}
	for end := time.Now().Add(patience); mappings(t)-before != len(clients); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d mappings are left, want those of the %d clients", mappings(t)-before, len(clients))
		}
	}
}
