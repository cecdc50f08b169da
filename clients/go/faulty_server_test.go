package client_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/wire"
)

// replies writes the replies of a server to requests by their type.
type replies map[string]func(w *wire.Writer, id uint64)

// twoRows is the layout of the batches that a faithful server sends.
func twoRows(t *testing.T, n int) *wire.Layout {
	t.Helper()
	l, err := wire.NewLayout(n, space.NewBox(0, 1, 1), space.Discrete{N: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func rowsOf(n int) *wire.Rows {
	return &wire.Rows{
		Obs: make([]float32, n), Mask: []bool{true, true, true, true, true, true}[:2*n], Reward: make([]float64, n),
		Terminated: make([]bool, n), Truncated: make([]bool, n), Invalid: make([]bool, n),
		EpisodeReturn: make([]float64, n), EpisodeLength: make([]int64, n),
	}
}

// made is the reply to make of a faithful server.
func made(id uint64) *wire.MakeReply {
	return &wire.MakeReply{
		T: wire.TypeMake + wire.OK, ID: id, EID: 1, Env: "test/Two-v0", N: 2, Autoreset: "NEXT_STEP",
		ObsSpace: space.NewBox(0, 1, 1).Describe(), ActSpace: space.Discrete{N: 2}.Describe(), Mask: 2,
	}
}

// serve answers one client on a unix socket: as a faithful server of two environments, but for
// what altered says. It returns the URL.
func serve(t *testing.T, altered replies) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		answer(t, conn, altered)
	}()
	t.Cleanup(func() { _ = listener.Close(); <-ended })
	return "unix://" + path
}

func answer(t *testing.T, conn net.Conn, altered replies) {
	l := twoRows(t, 2)
	faithful := replies{
		wire.TypeHello: func(w *wire.Writer, id uint64) {
			_ = w.Encode(&wire.Welcome{T: wire.TypeWelcome, ID: id, Ver: []int{1, 1}, Limits: wire.DefaultLimits()})
		},
		wire.TypeMake:  func(w *wire.Writer, id uint64) { _ = w.Encode(made(id)) },
		wire.TypeReset: func(w *wire.Writer, id uint64) { l.EncodeReset(w, id, rowsOf(2), nil) },
		wire.TypeStep:  func(w *wire.Writer, id uint64) { l.EncodeStep(w, id, rowsOf(2), false) },
		wire.TypeClose: func(w *wire.Writer, id uint64) { w.Head(2, wire.TypeClose+wire.OK, id) },
	}
	for {
		var head [4]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		data := make([]byte, binary.LittleEndian.Uint32(head[:]))
		if _, err := io.ReadFull(conn, data); err != nil {
			return
		}
		var f wire.Frame
		if err := f.Parse(data, wire.DefaultBounds); err != nil {
			t.Errorf("the client sent %x: %v", data, err)
			return
		}
		reply := altered[string(f.Type)]
		if reply == nil {
			reply = faithful[string(f.Type)]
		}
		w := wire.NewWriter()
		if reply(w, f.ID); len(w.Bytes()) == 0 {
			continue // no answer
		}
		if _, err := conn.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(w.Bytes()))), w.Bytes()...)); err != nil {
			return
		}
	}
}

// A client of a server that answers as it must not gives an error, and no environment of another kind.
func TestDialOfFaultyServer(t *testing.T) {
	for name, alter := range map[string]func(m *wire.MakeReply){
		"number of environments": func(m *wire.MakeReply) { m.N = 3 },
		"autoreset":              func(m *wire.MakeReply) { m.Autoreset = "SAME_STEP" },
		"observation space":      func(m *wire.MakeReply) { m.ObsSpace = space.Description{Kind: "Cube"} },
		"action space":           func(m *wire.MakeReply) { m.ActSpace = space.Description{Kind: "Cube"} },
		"dtype of a column":      func(m *wire.MakeReply) { m.Spec.Info = []wire.Column{{Name: "x", DType: "float8"}} },
		"mask":                   func(m *wire.MakeReply) { m.Mask = 3 },
	} {
		url := serve(t, replies{wire.TypeMake: func(w *wire.Writer, id uint64) { m := made(id); alter(m); _ = w.Encode(m) }})
		if v, err := client.Dial(ctx, url, "test/Two-v0", 2, client.Options{}); err == nil {
			t.Errorf("another %s: no error", name)
			_ = v.Close()
		}
	}
	url := serve(t, replies{wire.TypeHello: func(w *wire.Writer, id uint64) { w.Head(2, "hallo", id) }})
	if v, err := client.Dial(ctx, url, "test/Two-v0", 2, client.Options{}); !errors.Is(err, client.ErrConnection) {
		t.Errorf("a welcome of another kind: %v, %v; want ErrConnection", v, err)
	}
	for _, version := range [][]int{{2, 0}, {1}, nil} {
		url := serve(t, replies{wire.TypeHello: func(w *wire.Writer, id uint64) {
			_ = w.Encode(&wire.Welcome{T: wire.TypeWelcome, ID: id, Ver: version, Limits: wire.DefaultLimits()})
		}})
		if v, err := client.Dial(ctx, url, "test/Two-v0", 2, client.Options{}); err == nil || !strings.Contains(err.Error(), "version") {
			t.Errorf("a welcome of version %v: %v, %v; want an error about the version", version, v, err)
		}
	}
	if _, err := client.Dial(ctx, serve(t, nil), "test/Two-v0", 2, client.Options{Autoreset: 3}); err == nil {
		t.Error("a mode of autoreset that does not exist: no error")
	}
}

// After a reply that cannot be read, or is another's, nothing of the connection is believed.
func TestRepliesThatCannotBeRead(t *testing.T) {
	three := twoRows(t, 3)
	for name, tc := range map[string]replies{
		"reset of three rows":   {wire.TypeReset: func(w *wire.Writer, id uint64) { three.EncodeReset(w, id, rowsOf(3), nil) }},
		"step of three rows":    {wire.TypeStep: func(w *wire.Writer, id uint64) { three.EncodeStep(w, id, rowsOf(3), false) }},
		"step without arrays":   {wire.TypeStep: func(w *wire.Writer, id uint64) { w.Head(2, wire.TypeStep+wire.OK, id) }},
		"reply of another id":   {wire.TypeStep: func(w *wire.Writer, id uint64) { twoRows(t, 2).EncodeStep(w, id+1, rowsOf(2), false) }},
		"reply of another kind": {wire.TypeStep: func(w *wire.Writer, id uint64) { twoRows(t, 2).EncodeReset(w, id, rowsOf(2), nil) }},
		"mask of nothing": {wire.TypeStep: func(w *wire.Writer, id uint64) {
			r := rowsOf(2)
			r.Mask[2], r.Mask[3] = false, false
			twoRows(t, 2).EncodeStep(w, id, r, false)
		}},
		"no frame": {wire.TypeStep: func(w *wire.Writer, _ uint64) { w.Str("step.ok") }},
	} {
		t.Run(name, func(t *testing.T) {
			v := dial(t, serve(t, tc), "test/Two-v0", 2, client.Options{})
			_, err := v.Reset(ctx, envs.VecResetOptions{})
			if err == nil {
				_, err = v.Step(ctx, []float32{0, 1})
			}
			if !errors.Is(err, client.ErrConnection) {
				t.Errorf("%v, want ErrConnection", err)
			}
			if _, err := v.Reset(ctx, envs.VecResetOptions{}); !errors.Is(err, client.ErrConnection) {
				t.Errorf("Reset afterwards: %v, want ErrConnection", err)
			}
		})
	}
	v := dial(t, serve(t, replies{wire.TypeRender: func(w *wire.Writer, id uint64) {
		w.Head(3, wire.TypeRender+wire.OK, id)
		w.Str("frame")
		w.Array(wire.Uint8, 2, 2)
	}}), "test/Two-v0", 2, client.Options{})
	if _, err := v.RenderRGB(0); !errors.Is(err, client.ErrConnection) {
		t.Errorf("a picture without colours: %v, want ErrConnection", err)
	}
}

// Close sends its request to the server, once, and reports that it did not confirm.
func TestCloseAsksTheServer(t *testing.T) {
	closes := 0
	v, err := client.Dial(ctx, serve(t, replies{wire.TypeClose: func(w *wire.Writer, id uint64) { closes++; w.Head(2, "no", id) }}), "test/Two-v0", 2, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Close(); !errors.Is(err, client.ErrConnection) {
		t.Errorf("Close: %v, want ErrConnection: the server answers with something else", err)
	}
	if err := v.Close(); err != nil || closes != 1 {
		t.Errorf("the second Close: %v, after %d requests to close; want nil, after 1", err, closes)
	}
	for name, err := range map[string]error{
		"RenderANSI": func() error { _, err := v.RenderANSI(0); return err }(),
		"RenderRGB":  func() error { _, err := v.RenderRGB(0); return err }(),
	} {
		if !errors.Is(err, envs.ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
}
