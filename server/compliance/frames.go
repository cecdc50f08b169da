package compliance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubernasium/kubernasium/server/wire"
)

func (s *suite) checkSubprotocol(t *testing.T) {
	header := http.Header{}
	if s.opts.Token != "" {
		header.Set("Authorization", "Bearer "+s.opts.Token)
	}
	for _, offer := range [][]string{nil, {"kubernasium.v0"}, {"json"}} {
		d := websocket.Dialer{Subprotocols: offer, HandshakeTimeout: patience}
		conn, resp, err := d.Dial(s.url, header)
		if err == nil {
			_ = conn.Close() // the error is below
			t.Errorf("a client that offers %v is accepted", offer)
			continue
		}
		if resp == nil || resp.StatusCode != http.StatusBadRequest {
			t.Errorf("a client that offers %v: %v, want status 400", offer, err)
		}
	}
}

func (s *suite) checkHandshake(t *testing.T) {
	p := s.dial(t)
	p.refused(p.ask(message{"t": "envs"}), p.id, wire.HelloFirst)
	p.refused(p.ask(message{"t": "ping"}), p.id, wire.HelloFirst)
	p.refused(p.ask(message{"t": "hello"}), p.id, wire.BadField)
	p.refused(p.ask(message{"t": "hello", "ver": []int{1}}), p.id, wire.BadField)
	for _, major := range []int{0, 2, 1000} {
		reply := p.ask(message{"t": "hello", "ver": []int{major, 0}})
		p.refused(reply, p.id, wire.Version)
		if ver, _ := reply["ver"].([]any); len(ver) != 2 || ver[0] != 1.0 {
			t.Errorf("the refusal of version %d names %v, want [1, …]", major, reply["ver"])
		}
	}
	s.checkVersion10(t)
	welcome := p.do(message{"t": "hello", "ver": []int{1, 999}, "client": "compliance", "caps": []string{"none"}, "unknown": message{"x": 1}})
	limits, _ := welcome["limits"].(message)
	for _, key := range []string{"msg_in", "msg_out", "envs_make", "envs_session", "envs_server", "sessions", "inflight", "depth", "map_keys", "ndim", "idle_ms", "handshake_ms"} {
		if _, ok := limits[key].(float64); !ok {
			t.Errorf("welcome.limits.%s is %v, want a number", key, limits[key])
		}
	}
	if ver, _ := welcome["ver"].([]any); len(ver) != 2 || ver[0] != 1.0 {
		t.Errorf("welcome.ver is %v, want [1, …]", welcome["ver"])
	}
	p.refused(p.ask(message{"t": "hello", "ver": []int{1, 0}}), p.id, wire.HelloTwice)
	p.alive()
}

func (s *suite) checkIDs(t *testing.T) {
	p := s.open(t)
	p.id = 100
	p.alive()
	for _, id := range []any{uint64(101), 100, 1, 0, -1, "x", 1.5, nil} {
		p.sendRaw(pack(t, message{"t": "ping", "id": id}))
		p.refused(p.receive(), 0, wire.BadID)
	}
	p.sendRaw(pack(t, message{"t": "ping"}))
	p.refused(p.receive(), 0, wire.BadID)
	p.id = 1 << 40
	p.alive()
}

func (s *suite) checkUnknown(t *testing.T) {
	p := s.open(t)
	for _, name := range wire.Reserved { // the session has version 1.0
		p.refused(p.ask(message{"t": name}), p.id, wire.IsReserved)
	}
	for _, name := range []string{"no such", "step.ok", "", strings.Repeat("x", 10000)} {
		reply := p.ask(message{"t": name})
		want := wire.UnknownMessage
		if name == "" {
			want = wire.Malformed
		}
		p.refused(reply, p.id, want)
	}
	p.alive()
}

func (s *suite) checkMalformed(t *testing.T) {
	p := s.open(t)
	nested := func(depth int) message {
		m := message{}
		for range depth {
			m = message{"m": m}
		}
		return m
	}
	many := message{"t": "ping"}
	for i := range 300 {
		many[fmt.Sprint(i)] = i
	}
	for name, data := range map[string][]byte{
		"nothing":      {},
		"no map":       {0x01},
		"unused code":  {0xc1},
		"a list":       {0x91, 0x01},
		"integer keys": {0x81, 0x01, 0x01},
		"a huge map":   {0xdf, 0xff, 0xff, 0xff, 0xff},
		"a huge list":  {0x81, 0xa1, 'a', 0xdd, 0xff, 0xff, 0xff, 0xff},
		"a huge str":   {0x81, 0xa1, 'a', 0xdb, 0xff, 0xff, 0xff, 0xff},
		"a huge ext":   {0x81, 0xa1, 'a', 0xc9, 0xff, 0xff, 0xff, 0xff, 0x4e},
	} {
		p.sendRaw(data)
		if reply := p.receive(); reply["reason"] != string(wire.Malformed) {
			t.Errorf("%s: %v, want %s", name, reply, wire.Malformed)
		}
	}
	for name, m := range map[string]message{
		"deep":          {"t": "ping", "m": nested(40)},
		"many keys":     many,
		"no t":          {"x": 1},
		"t is a number": {"t": 5},
	} {
		id := p.send(m)
		reply := p.receive()
		if got := reply["id"]; reply["reason"] != string(wire.Malformed) || got != float64(id) && got != 0.0 {
			t.Errorf("%s: %v, want %s with id %d or 0", name, reply, wire.Malformed, id)
		}
	}
	p.sendRaw(append(pack(t, message{"t": "ping", "id": p.id + 1}), 0xc0))
	p.id++
	p.refused(p.receive(), p.id, wire.Malformed)
	p.do(message{"t": "ping", "m": nested(10)})
	p.alive()
}

// checkTruncated truncates a valid request after each of its bytes.
func (s *suite) checkTruncated(t *testing.T) {
	p, eid := s.make(t, 2, "NEXT_STEP", 0)
	whole := pack(t, message{"t": "step", "id": 1 << 30, "eid": eid, "a": int64s(0, 0)})
	for n := range len(whole) {
		p.sendRaw(whole[:n])
		if reply := p.receive(); reply["reason"] != string(wire.Malformed) && reply["reason"] != string(wire.BadID) {
			t.Errorf("%d of %d bytes: %v, want %s", n, len(whole), reply, wire.Malformed)
		}
	}
	p.id = 1 << 31
	p.alive()
}

func (s *suite) checkBadArrays(t *testing.T) {
	p, eid := s.make(t, 2, "NEXT_STEP", 0)
	p.do(message{"t": "reset", "eid": eid, "seed": 1})
	for name, tc := range map[string]struct {
		a      any
		reason wire.Reason
	}{
		"flags":               {ndarray(1, 7, 0, 2, 0, 0), wire.BadArray},
		"dtype 13":            {ndarray(0, 13, 0, 2, 0, 0), wire.BadArray},
		"padding of 64":       {ndarray(0, 7, 64, 2, 0, 0), wire.BadArray},
		"shape beyond data":   {ndarray(0, 7, 0, 3, 0, 0), wire.BadArray},
		"data beyond shape":   {ndarray(0, 7, 0, 1, 0, 0), wire.BadArray},
		"huge shape":          {ndarray(0, 7, 0, 1<<32-1, 0, 0), wire.BadArray},
		"another extension":   {encoded{0xd6, 0x01, 0, 0, 0, 0}, wire.BadArray},
		"no header":           {encoded{0xd5, wire.ArrayExt, 0, 7}, wire.BadArray},
		"one action too many": {int64s(0, 0, 0), wire.InvalidAction},
		"no action":           {int64s(), wire.InvalidAction},
	} {
		reply := p.ask(message{"t": "step", "eid": eid, "a": tc.a})
		if reply["reason"] != string(tc.reason) {
			t.Errorf("%s: %v, want %s", name, reply, tc.reason)
		}
	}
	p.do(message{"t": "step", "eid": eid, "a": int64s(0, 0)})
}

func (s *suite) checkText(t *testing.T) {
	p := s.open(t)
	if err := p.conn.WriteMessage(websocket.TextMessage, []byte(`{"t":"ping","id":2}`)); err != nil {
		t.Fatal(err)
	}
	p.refused(p.receive(), 0, wire.TextFrame)
	p.alive()
}

func (s *suite) checkOversize(t *testing.T) {
	p := s.dial(t)
	welcome := p.do(message{"t": "hello", "ver": []int{1, 0}})
	limit := int(welcome["limits"].(message)["msg_in"].(float64))
	m := message{"t": "ping", "ts": ""}
	m["ts"] = strings.Repeat("x", limit-len(pack(t, m))-40)
	p.want(p.ask(m), "ping.ok")
	// The server may close before it has read everything, so a failed write is fine.
	if err := p.conn.WriteMessage(websocket.BinaryMessage, make([]byte, limit+1)); err == nil {
		p.refused(p.receive(), 0, wire.TooLarge)
		p.closed(websocket.CloseMessageTooBig)
	}
}

// checkFragments sends a request in WebSocket fragments with control pings between them.
func (s *suite) checkFragments(t *testing.T) {
	p := s.open(t)
	pongs := 0
	p.conn.SetPongHandler(func(string) error { pongs++; return nil })
	data := pack(t, message{"t": "ping", "id": p.id + 1, "ts": strings.Repeat("x", 50000)})
	p.id++
	w, err := p.conn.NextWriter(websocket.BinaryMessage)
	if err != nil {
		t.Fatal(err)
	}
	for len(data) > 0 {
		n := min(len(data), 5000)
		if _, err := w.Write(data[:n]); err != nil {
			t.Fatal(err)
		}
		data = data[n:]
		if err := p.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p.want(p.receive(), "ping.ok")
	if pongs == 0 {
		t.Error("no control ping was answered")
	}
}
