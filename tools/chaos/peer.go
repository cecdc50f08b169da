//go:build linux

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/kubernasium/kubernasium/server/wire"
)

// message is a frame in its generic form.
type message = map[string]any

// A peer is a client that sends arbitrary bytes over a unix socket.
type peer struct {
	conn net.Conn
	r    *bufio.Reader
	id   uint64
}

func connect(path string) (*peer, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	return &peer{conn: conn, r: bufio.NewReader(conn)}, nil
}

// open connects and says hello. Its session has no lease, so that it ends with the connection.
func open(path string) (*peer, error) {
	p, err := connect(path)
	if err != nil {
		return nil, err
	}
	if _, err := p.granted(message{"t": "hello", "ver": []int{1, 999}}); err != nil {
		return nil, fmt.Errorf("%w, %w", err, p.conn.Close())
	}
	return p, nil
}

// raw sends a frame.
func (p *peer) raw(data []byte) error {
	_, err := p.conn.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data...))
	return err
}

// send sends a message under the next id.
func (p *peer) send(m message) error {
	p.id++
	m["id"] = p.id
	data, err := msgpack.Marshal(m)
	if err != nil {
		return err
	}
	return p.raw(data)
}

// A reply holds the fields of a reply that the rows use.
type reply struct {
	Type   string `msgpack:"t"`
	ID     uint64 `msgpack:"id"`
	Code   string `msgpack:"code"`
	Reason string `msgpack:"reason"`
	Msg    string `msgpack:"msg"`
	Option string `msgpack:"option"`
	EID    uint64 `msgpack:"eid"`
	size   int
}

// receive returns the next frame.
func (p *peer) receive() (*reply, error) {
	if err := p.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return nil, err
	}
	data := make([]byte, binary.LittleEndian.Uint32(head[:]))
	if _, err := io.ReadFull(p.r, data); err != nil {
		return nil, err
	}
	return parse(data)
}

func parse(data []byte) (*reply, error) {
	var f wire.Frame
	if err := f.Parse(data, wire.DefaultBounds); err != nil {
		return nil, fmt.Errorf("a frame of %d bytes: %w", len(data), err)
	}
	r := &reply{Type: string(f.Type), ID: f.ID, size: len(data)}
	for key, to := range map[string]*string{"code": &r.Code, "reason": &r.Reason, "msg": &r.Msg, "option": &r.Option} {
		if v := f.Get(key); v != nil {
			_ = msgpack.Unmarshal(v, to) // a field of another type has another meaning
		}
	}
	if eid, ok, err := f.Uint("eid"); ok && err == nil {
		r.EID = eid
	}
	return r, nil
}

// exchange sends a request and returns the next reply, whatever its id.
func (p *peer) exchange(m message) (*reply, error) {
	if err := p.send(m); err != nil {
		return nil, err
	}
	return p.receive()
}

// ask sends a request and returns its reply.
func (p *peer) ask(m message) (*reply, error) {
	r, err := p.exchange(m)
	if err == nil && r.ID != p.id {
		err = fmt.Errorf("%v is answered with the id %d, want %d", m["t"], r.ID, p.id)
	}
	return r, err
}

// granted is ask for a request that the server must grant.
func (p *peer) granted(m message) (*reply, error) {
	r, err := p.ask(m)
	if err == nil && r.Type == "err" {
		err = fmt.Errorf("%v: %s %s", m["t"], r.Reason, r.Msg)
	}
	return r, err
}

// begin makes the environment of the witness, with the id 1, and resets it.
func (p *peer) begin() error {
	if _, err := p.granted(message{"t": "make", "env": witnessEnv}); err != nil {
		return err
	}
	_, err := p.granted(message{"t": "reset", "eid": 1})
	return err
}
