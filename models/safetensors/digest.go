package safetensors

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// noDigest replaces the digits while the digest is computed.
var noDigest = strings.Repeat("0", 2*sha256.Size)

// digestAt returns the offset of the digits that follow the key in a header that encodeHeader
// wrote, or -1. A string escapes the key's quotes, so digestAt does not find the key inside another
// value.
func digestAt(header []byte, digits string) int {
	key := `"` + DigestKey + `":"`
	at := bytes.Index(header, []byte(key+digits+`"`))
	if at < 0 {
		return -1
	}
	return at + len(key)
}

// newDigest returns a hash of the length and the header, with zeros in place of the digits.
func newDigest(header []byte, at int) hash.Hash {
	h := sha256.New()
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(header)))
	for _, part := range [][]byte{length[:], header[:at], []byte(noDigest), header[at+len(noDigest):]} {
		h.Write(part) // never fails
	}
	return h
}

// checkDigests compares the digests of the metadata with the file's.
func checkDigests(metadata map[string]string, header, data []byte) error {
	if want, ok := metadata[dataDigestKey]; ok {
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); got != want {
			return fmt.Errorf("data altered: their SHA-256 is %s, the metadata say %q", got, want)
		}
	}
	want, ok := metadata[DigestKey]
	if !ok {
		return nil
	}
	at := digestAt(header, want)
	if len(want) != len(noDigest) || at < 0 {
		return errors.New("altered: the header has no SHA-256 of the file where one was written")
	}
	h := newDigest(header, at)
	h.Write(data)
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("altered: the SHA-256 of header and data is %s, the metadata say %q", got, want)
	}
	return nil
}
