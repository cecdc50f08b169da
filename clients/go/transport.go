package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubernasium/kubernasium/server/wire"
)

// transport carries frames to a server and back.
type transport interface {
	writeFrame(frame []byte) error
	// readFrame reads a frame of at most limit bytes into buf, which it extends as needed.
	readFrame(buf []byte, limit int) ([]byte, error)
	// interrupt makes a blocked writeFrame or readFrame return, from another goroutine.
	interrupt()
	// proceed makes the transport usable after an interrupt that hit no call.
	proceed()
	close() error
}

// handshakeTimeout bounds the time for a connection.
const handshakeTimeout = 10 * time.Second

func dial(ctx context.Context, rawURL, token string, tlsConfig *tls.Config) (transport, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	switch u.Scheme {
	case "unix":
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", u.Path)
		if err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
		return &unixTransport{conn: conn, r: bufio.NewReaderSize(conn, 16<<10)}, nil
	case "ws", "wss":
		if u.Path == "" || u.Path == "/" {
			u.Path = wire.Path
		}
		return dialWebSocket(ctx, u, token, tlsConfig)
	}
	return nil, fmt.Errorf("client: URL %q, want ws://host:port, wss://host:port, unix:///path or %s://name:port", rawURL, schemeDNS)
}

func dialWebSocket(ctx context.Context, u *url.URL, token string, tlsConfig *tls.Config) (transport, error) {
	d := websocket.Dialer{
		Subprotocols: []string{wire.Subprotocol}, TLSClientConfig: tlsConfig, HandshakeTimeout: handshakeTimeout,
		ReadBufferSize: 32 << 10, WriteBufferSize: 16 << 10,
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	conn, resp, err := d.DialContext(ctx, u.String(), header)
	if err != nil {
		if resp != nil && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden) {
			return nil, fmt.Errorf("%w: %s answers %s", ErrUnauthorized, u.Redacted(), resp.Status)
		}
		return nil, fmt.Errorf("client: dial %s: %w", u.Redacted(), err)
	}
	if got := conn.Subprotocol(); got != wire.Subprotocol {
		return nil, errors.Join(fmt.Errorf("client: %s speaks %q, want %s", u.Redacted(), got, wire.Subprotocol), conn.Close())
	}
	return &wsTransport{conn}, nil
}

type wsTransport struct{ conn *websocket.Conn }

func (t *wsTransport) writeFrame(frame []byte) error {
	return t.conn.WriteMessage(websocket.BinaryMessage, frame)
}

func (t *wsTransport) readFrame(buf []byte, limit int) ([]byte, error) {
	_, r, err := t.conn.NextReader()
	if err != nil {
		return buf, err
	}
	return wire.ReadAll(r, buf, limit)
}

func (t *wsTransport) interrupt() { _ = t.conn.NetConn().SetDeadline(time.Unix(1, 0)) } // fails only if closed

func (t *wsTransport) proceed() { _ = t.conn.NetConn().SetDeadline(time.Time{}) } // fails only if closed

func (t *wsTransport) close() error {
	msg := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = t.conn.WriteControl(websocket.CloseMessage, msg, time.Now().Add(time.Second)) // the server may be gone
	return t.conn.Close()
}

type unixTransport struct {
	conn    net.Conn
	r       *bufio.Reader
	prefix  [4]byte
	pair    [2][]byte
	buffers net.Buffers
}

func (t *unixTransport) writeFrame(frame []byte) error {
	binary.LittleEndian.PutUint32(t.prefix[:], uint32(len(frame)))
	t.pair = [2][]byte{t.prefix[:], frame}
	t.buffers = t.pair[:]
	_, err := t.buffers.WriteTo(t.conn)
	return err
}

func (t *unixTransport) readFrame(buf []byte, limit int) ([]byte, error) {
	head, err := t.r.Peek(4)
	if err != nil {
		return buf, err
	}
	n := int(binary.LittleEndian.Uint32(head))
	if n > limit {
		return buf, wire.ErrFrameTooLarge
	}
	if _, err := t.r.Discard(4); err != nil {
		return buf, err
	}
	buf = slices.Grow(buf[:0], n)[:n]
	_, err = io.ReadFull(t.r, buf)
	return buf, err
}

func (t *unixTransport) interrupt() { _ = t.conn.SetDeadline(time.Unix(1, 0)) } // fails only if closed

func (t *unixTransport) proceed() { _ = t.conn.SetDeadline(time.Time{}) } // fails only if closed

func (t *unixTransport) close() error { return t.conn.Close() }
