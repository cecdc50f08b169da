package compliance

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/klauspost/compress/zstd"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/kubernasium/kubernasium/server/wire"
)

// longestRefusal is the greatest length of an err in bytes.
const longestRefusal = 4 << 10

// patience bounds every wait for the server.
const patience = time.Minute

// message is a frame in its generic form. Arrays are of type array.
type message = map[string]any

// array is a decoded array with its elements as float64.
type array struct {
	dtype wire.DType
	shape []int
	data  []float64
}

// encoded is a value already in MessagePack.
type encoded []byte

// EncodeMsgpack implements msgpack.CustomEncoder.
func (e encoded) EncodeMsgpack(enc *msgpack.Encoder) error {
	_, err := enc.Writer().Write(e)
	return err
}

// peer is a client that sends any message, with a codec of its own.
type peer struct {
	t    *testing.T
	conn *websocket.Conn
	id   uint64

	packed int // compressed frames received
}

// unpacker decompresses frames.
var unpacker, _ = zstd.NewReader(nil) // only options can be wrong

func (s *suite) dial(t *testing.T) *peer {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{wire.Subprotocol}, HandshakeTimeout: patience}
	header := http.Header{}
	if s.opts.Token != "" {
		header.Set("Authorization", "Bearer "+s.opts.Token)
	}
	conn, _, err := d.Dial(s.url, header)
	if err != nil {
		t.Fatalf("dial %s: %v", s.url, err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // a check may have closed the connection
	if got := conn.Subprotocol(); got != wire.Subprotocol {
		t.Fatalf("the server chose subprotocol %q, want %s", got, wire.Subprotocol)
	}
	return &peer{t: t, conn: conn}
}

// open dials and sends hello.
func (s *suite) open(t *testing.T) *peer {
	t.Helper()
	p := s.dial(t)
	p.do(message{"t": "hello", "ver": []int{1, 0}})
	return p
}

// make opens a session with a vector and returns the vector's eid.
func (s *suite) make(t *testing.T, n int, autoreset string, limit int) (*peer, uint64) {
	t.Helper()
	p := s.open(t)
	return p, eidOf(p.make(s.opts.Env, n, autoreset, limit))
}

// with opens a session of the server's own version with a vector. If the server lacks the optional
// part, with checks that it rejects the requests of that part, and ok is false.
func (s *suite) with(t *testing.T, part string, n int, autoreset string) (p *peer, made message, ok bool) {
	t.Helper()
	p = s.dial(t)
	welcome := p.do(message{"t": "hello", "ver": []int{1, 999}})
	caps, _ := welcome["caps"].([]any)
	if slices.Contains(caps, any(part)) {
		return p, p.make(s.opts.Env, n, autoreset, limit), true
	}
	t.Logf("the server has the parts %v, and so no %s", caps, part)
	return p, nil, false
}

// eidOf returns the eid of a reply to make.
func eidOf(made message) uint64 { return uint64(made["eid"].(float64)) }

// make makes a vector and returns the reply.
func (p *peer) make(env string, n int, autoreset string, limit int) message {
	p.t.Helper()
	made := p.do(message{"t": "make", "env": env, "n": n, "autoreset": autoreset, "max_episode_steps": limit})
	if _, ok := made["eid"].(float64); !ok {
		p.t.Fatalf("make.ok without an eid: %v", made)
	}
	return made
}

func (p *peer) sendRaw(data []byte) {
	p.t.Helper()
	if err := p.conn.WriteMessage(websocket.BinaryMessage, data); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// send sends a message under the next id and returns the id.
func (p *peer) send(m message) uint64 {
	p.t.Helper()
	p.id++
	m["id"] = p.id
	p.sendRaw(pack(p.t, m))
	return p.id
}

func pack(t *testing.T, m message) []byte {
	t.Helper()
	b, err := msgpack.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wait sets the deadline of the server's reply.
func (p *peer) wait() {
	p.t.Helper()
	if err := p.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
}

// receive returns the next frame.
func (p *peer) receive() message {
	p.t.Helper()
	p.wait()
	kind, data, err := p.conn.ReadMessage()
	if err != nil {
		p.t.Fatalf("read: %v", err)
	}
	if kind != websocket.BinaryMessage {
		p.t.Fatalf("a message of type %d, want binary", kind)
	}
	if wire.Packed(data) {
		if data, err = unpacker.DecodeAll(data, nil); err != nil {
			p.t.Fatalf("a compressed frame: %v", err)
		}
		p.packed++
	}
	m, err := decode(data)
	if err != nil {
		p.t.Fatalf("frame %x: %v", data, err)
	}
	if m["t"] == "err" && len(data) > longestRefusal {
		p.t.Errorf("a refusal of %d bytes, want at most %d: %v", len(data), longestRefusal, m)
	}
	return m
}

// ask sends a request and returns its reply, which must carry its id.
func (p *peer) ask(m message) message {
	p.t.Helper()
	id := p.send(m)
	reply := p.receive()
	if got := reply["id"]; got != float64(id) {
		p.t.Fatalf("%v is answered with id %v, want %d: %v", m["t"], got, id, reply)
	}
	return reply
}

// want returns a reply, which must be of the given kind.
func (p *peer) want(reply message, kind string) message {
	p.t.Helper()
	if reply["t"] != kind {
		p.t.Fatalf("the reply is %v, want %s", reply, kind)
	}
	return reply
}

// do is ask for a request that must be granted.
func (p *peer) do(m message) message {
	p.t.Helper()
	if m["t"] == wire.TypeHello {
		return p.want(p.ask(m), wire.TypeWelcome)
	}
	return p.want(p.ask(m), m["t"].(string)+wire.OK)
}

// refused checks that a reply is an error with the given reason, its code and the id.
func (p *peer) refused(reply message, id uint64, reason wire.Reason) {
	p.t.Helper()
	if reply["t"] != "err" || reply["id"] != float64(id) || reply["reason"] != string(reason) || reply["code"] != string(reason.Code()) {
		p.t.Errorf("the reply is %v, want err %s %s with id %d", reply, reason.Code(), reason, id)
	}
	if msg, _ := reply["msg"].(string); msg == "" {
		p.t.Errorf("%v has no message", reply)
	}
}

// alive checks that the session still answers.
func (p *peer) alive() {
	p.t.Helper()
	p.do(message{"t": "ping"})
}

// closed checks that the server closes the connection with a code.
func (p *peer) closed(code int) {
	p.t.Helper()
	p.wait()
	for {
		_, _, err := p.conn.ReadMessage()
		if err == nil {
			continue
		}
		if !websocket.IsCloseError(err, code) {
			p.t.Errorf("the connection ends with %v, want close code %d", err, code)
		}
		return
	}
}

// decode reads one frame with nothing after it.
func decode(data []byte) (message, error) {
	br := bytes.NewReader(data)
	dec := msgpack.NewDecoder(br)
	v, err := decodeValue(dec, br)
	if err != nil {
		return nil, err
	}
	m, ok := v.(message)
	if !ok || br.Len() > 0 {
		return nil, fmt.Errorf("%T and %d bytes after it, want a map", v, br.Len())
	}
	return m, nil
}

func decodeValue(dec *msgpack.Decoder, br *bytes.Reader) (any, error) {
	c, err := dec.PeekCode()
	if err != nil {
		return nil, err
	}
	switch {
	case c >= 0x80 && c <= 0x8f || c == 0xde || c == 0xdf:
		n, err := dec.DecodeMapLen()
		m := message{}
		for range n {
			key, err := dec.DecodeString()
			if err != nil {
				return nil, err
			}
			if m[key], err = decodeValue(dec, br); err != nil {
				return nil, err
			}
		}
		return m, err
	case c >= 0x90 && c <= 0x9f || c == 0xdc || c == 0xdd:
		n, err := dec.DecodeArrayLen()
		list := make([]any, n)
		for i := range list {
			if list[i], err = decodeValue(dec, br); err != nil {
				return nil, err
			}
		}
		return list, err
	case c >= 0xc4 && c <= 0xc6:
		return dec.DecodeBytes()
	case c >= 0xc7 && c <= 0xc9 || c >= 0xd4 && c <= 0xd8:
		kind, n, err := dec.DecodeExtHeader()
		if err != nil || kind != wire.ArrayExt || n > br.Len() {
			return nil, fmt.Errorf("extension %d of %d bytes: %v", kind, n, err)
		}
		payload := make([]byte, n)
		if err := dec.ReadFull(payload); err != nil {
			return nil, err
		}
		return decodeArray(payload)
	}
	v, err := dec.DecodeInterfaceLoose()
	switch x := v.(type) {
	case int64:
		return float64(x), err
	case uint64:
		return float64(x), err
	}
	return v, err
}

// decodeArray reads the payload of an array by the table of PROTOCOL.md, section 4.
func decodeArray(b []byte) (any, error) {
	if len(b) < 4 || b[0] != 0 || b[1] > 12 || b[2] > 8 || b[3] > 63 || len(b) < 4+4*int(b[2])+int(b[3]) {
		return nil, fmt.Errorf("array header %x", b[:min(len(b), 4)])
	}
	a := array{dtype: wire.DType(b[1])}
	n := 1
	for i := range int(b[2]) {
		side := int(binary.LittleEndian.Uint32(b[4+4*i:]))
		a.shape = append(a.shape, side)
		n *= side
	}
	data, size := b[4+4*int(b[2])+int(b[3]):], a.dtype.ItemSize()
	if len(data) != n*size {
		return nil, fmt.Errorf("an array of shape %v and dtype %s with %d bytes", a.shape, a.dtype, len(data))
	}
	for i := range n {
		e := data[i*size:]
		var x float64
		switch a.dtype {
		case wire.Bool, wire.Uint8:
			x = float64(e[0])
		case wire.Int8:
			x = float64(int8(e[0]))
		case wire.Int32:
			x = float64(int32(binary.LittleEndian.Uint32(e)))
		case wire.Int64:
			x = float64(int64(binary.LittleEndian.Uint64(e)))
		case wire.Float32:
			x = float64(math.Float32frombits(binary.LittleEndian.Uint32(e)))
		case wire.Float64:
			x = math.Float64frombits(binary.LittleEndian.Uint64(e))
		default:
			return nil, fmt.Errorf("dtype %s is in no reply of version 1.0", a.dtype)
		}
		a.data = append(a.data, x)
	}
	return a, nil
}

// ndarray encodes an int64 array of one dimension with the given flags, padding and claimed length.
func ndarray(flags, dtype, pad byte, claimed int, values ...int64) encoded {
	b := []byte{flags, dtype, 1, pad}
	b = binary.LittleEndian.AppendUint32(b, uint32(claimed))
	b = append(b, make([]byte, pad)...)
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return append(encoded{0xc8, byte(len(b) >> 8), byte(len(b)), wire.ArrayExt}, b...)
}

// int64s encodes values as a valid array.
func int64s(values ...int64) encoded { return ndarray(0, 7, 3, len(values), values...) }
