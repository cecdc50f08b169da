package host_test

import (
	"encoding/binary"
	"io"
	"math"
	"net"
	"testing"

	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/server/wire"
)

// rawStepper returns a function that steps 16 CartPoles by bytes alone, so that what is
// allocated is the server's.
func rawStepper(t testing.TB, url string) (step func()) {
	const n = 16
	c := dial(t, url)
	c.send("hello", "ver", []int{1, 0})
	c.want("welcome 1")
	c.send("make", "env", "classic/CartPole-v1", "n", n, "autoreset", "SAME_STEP")
	c.want("make.ok 2")
	c.send("reset", "eid", 1, "seed", 1)
	c.want("reset.ok 3")
	l, err := wire.NewLayout(n, space.NewBox(-1, 1, 4), space.Discrete{N: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := wire.NewWriter()
	l.EncodeStepRequest(w, math.MaxUint64, 1, make([]float32, n))
	size := len(w.Bytes())
	frame := binary.LittleEndian.AppendUint32(nil, uint32(size))
	var conn net.Conn = c.unix
	if c.ws != nil {
		conn = c.ws.NetConn()
		frame = []byte{0x82, 0x80 | 126, byte(size >> 8), byte(size), 0, 0, 0, 0} // binary, masked with zeros
	}
	const idAt = 12 // after the map's header, "t", "step", "id" and the code of a uint64
	frame = append(frame, w.Bytes()...)
	id := frame[len(frame)-size+idAt:]
	last, head, reply := uint64(1)<<40, make([]byte, 4), make([]byte, 1<<16)
	return func() {
		last++
		binary.BigEndian.PutUint64(id, last)
		if _, err := conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, head); err != nil {
			t.Fatal(err)
		}
		length := int(binary.LittleEndian.Uint32(head))
		if c.ws != nil { // 0x82, 126 and the length: a reply is longer than 125 bytes
			length = int(binary.BigEndian.Uint16(head[2:]))
		}
		if _, err := io.ReadFull(conn, reply[:length]); err != nil {
			t.Fatal(err)
		}
		if reply[4] != 's' { // of "step.ok"
			t.Fatalf("%q", reply[:length])
		}
	}
}

// The way of a step through the whole server allocates at most two objects.
func TestServerAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates; run without -race")
	}
	s := hosttest.Start(t)
	for name, url := range map[string]string{"ws": s.WS, "unix": s.Unix} {
		step := rawStepper(t, url)
		for range 50 {
			step()
		}
		got := testing.AllocsPerRun(500, step)
		t.Logf("%s: %v allocations", name, got)
		if got > 2 {
			t.Errorf("%s: %v allocations in a step, want at most 2", name, got)
		}
	}
}
