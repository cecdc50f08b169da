package client

import (
	"fmt"
	"net/url"

	"github.com/kubernasium/kubernasium/server/wire"
)

// compresses removes the parameter compress from a URL, and reports whether frames should be compressed.
func compresses(rawURL string) (rest string, on bool, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", false, fmt.Errorf("client: %w", err)
	}
	query := u.Query()
	if !query.Has("compress") {
		return rawURL, false, nil
	}
	if got := query.Get("compress"); got != wire.CapZstd {
		return "", false, fmt.Errorf("client: compress=%s in %s, want %s", got, u.Redacted(), wire.CapZstd)
	}
	query.Del("compress")
	u.RawQuery = query.Encode()
	return u.String(), true, nil
}

// packedTransport is a transport to a server that reads compressed frames, and may send them.
type packedTransport struct {
	transport
	packer     *wire.Packer
	spare, out []byte // the last frames read and written, compressed
}

func (t *packedTransport) writeFrame(frame []byte) error {
	packed := t.packer.Pack(t.out, frame)
	if len(packed) < len(frame) {
		t.out = packed
	}
	return t.transport.writeFrame(packed)
}

func (t *packedTransport) readFrame(buf []byte, limit int) ([]byte, error) {
	buf, err := t.transport.readFrame(buf, limit)
	if err != nil || !wire.Packed(buf) {
		return buf, err
	}
	frame, err := t.packer.Unpack(t.spare, buf)
	if err != nil {
		return buf, err
	}
	t.spare = buf
	return frame, nil
}
