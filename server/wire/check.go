package wire

import (
	"encoding/binary"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Bounds limits nesting and maps in a decoder. A message's size limits everything else, since every
// element takes at least a byte.
type Bounds struct {
	Depth   int // of arrays and maps, including the frame
	MapKeys int // of one map
}

// DefaultBounds are the bounds of PROTOCOL.md, section 10.
var DefaultBounds = Bounds{Depth: 16, MapKeys: 256}

// skip returns the position after the MessagePack value at pos. The library's Skip does not bound
// the depth.
func (l *Bounds) skip(b []byte, pos, depth int) (int, error) {
	if pos >= len(b) {
		return 0, errTruncated(pos)
	}
	c := b[pos]
	pos++
	switch {
	case msgpcode.IsFixedNum(c), c == msgpcode.Nil, c == msgpcode.False, c == msgpcode.True:
		return pos, nil
	case msgpcode.IsFixedMap(c):
		return l.skipParts(b, pos, int(c&msgpcode.FixedMapMask), depth, true)
	case msgpcode.IsFixedArray(c):
		return l.skipParts(b, pos, int(c&msgpcode.FixedArrayMask), depth, false)
	case msgpcode.IsFixedString(c):
		return advance(b, pos, int(c&msgpcode.FixedStrMask))
	}
	width, extra, ok := lengths(c)
	if !ok {
		return 0, Errorf(Malformed, "byte 0x%02x at %d begins no MessagePack value", c, pos-1)
	}
	if width == 0 {
		return advance(b, pos, extra)
	}
	n, pos, err := readLength(b, pos, width)
	if err != nil {
		return 0, err
	}
	switch c {
	case msgpcode.Map16, msgpcode.Map32:
		return l.skipParts(b, pos, n, depth, true)
	case msgpcode.Array16, msgpcode.Array32:
		return l.skipParts(b, pos, n, depth, false)
	}
	return advance(b, pos, n+extra)
}

// lengths returns the width of the length that follows code c, 0 for none, and the number of bytes
// in addition to those that the length counts.
func lengths(c byte) (width, extra int, ok bool) {
	switch c {
	case msgpcode.Uint8, msgpcode.Int8:
		return 0, 1, true
	case msgpcode.Uint16, msgpcode.Int16:
		return 0, 2, true
	case msgpcode.Uint32, msgpcode.Int32, msgpcode.Float:
		return 0, 4, true
	case msgpcode.Uint64, msgpcode.Int64, msgpcode.Double:
		return 0, 8, true
	case msgpcode.Str8, msgpcode.Bin8:
		return 1, 0, true
	case msgpcode.Str16, msgpcode.Bin16, msgpcode.Array16, msgpcode.Map16:
		return 2, 0, true
	case msgpcode.Str32, msgpcode.Bin32, msgpcode.Array32, msgpcode.Map32:
		return 4, 0, true
	case msgpcode.Ext8:
		return 1, 1, true
	case msgpcode.Ext16:
		return 2, 1, true
	case msgpcode.Ext32:
		return 4, 1, true
	case msgpcode.FixExt1:
		return 0, 2, true
	case msgpcode.FixExt2:
		return 0, 3, true
	case msgpcode.FixExt4:
		return 0, 5, true
	case msgpcode.FixExt8:
		return 0, 9, true
	case msgpcode.FixExt16:
		return 0, 17, true
	}
	return 0, 0, false
}

func readLength(b []byte, pos, width int) (n, next int, err error) {
	if len(b)-pos < width {
		return 0, 0, errTruncated(pos)
	}
	switch width {
	case 1:
		n = int(b[pos])
	case 2:
		n = int(binary.BigEndian.Uint16(b[pos:]))
	default:
		n = int(binary.BigEndian.Uint32(b[pos:]))
	}
	return n, pos + width, nil
}

func advance(b []byte, pos, n int) (int, error) {
	if n > len(b)-pos {
		return 0, errTruncated(pos)
	}
	return pos + n, nil
}

// skipParts skips the n elements of an array, or the n pairs of a map.
func (l *Bounds) skipParts(b []byte, pos, n, depth int, pairs bool) (int, error) {
	switch {
	case depth >= l.Depth:
		return 0, Errorf(Malformed, "arrays and maps nested deeper than %d", l.Depth)
	case pairs && n > l.MapKeys:
		return 0, errKeys(n, l.MapKeys)
	case !pairs && n > len(b)-pos:
		return 0, errTruncated(pos)
	}
	var err error
	for range n {
		if pairs {
			if _, pos, err = readKey(b, pos); err != nil {
				return 0, err
			}
		}
		if pos, err = l.skip(b, pos, depth+1); err != nil {
			return 0, err
		}
	}
	return pos, nil
}

// readKey returns the string at pos without copying it, and the position after it.
func readKey(b []byte, pos int) (key []byte, next int, err error) {
	if pos >= len(b) {
		return nil, 0, errTruncated(pos)
	}
	c := b[pos]
	pos++
	n := int(c & msgpcode.FixedStrMask)
	if !msgpcode.IsFixedString(c) {
		if c != msgpcode.Str8 && c != msgpcode.Str16 && c != msgpcode.Str32 {
			return nil, 0, Errorf(Malformed, "key at %d of type 0x%02x, want a string", pos-1, c)
		}
		width, _, _ := lengths(c)
		if n, pos, err = readLength(b, pos, width); err != nil {
			return nil, 0, err
		}
	}
	next, err = advance(b, pos, n)
	if err != nil {
		return nil, 0, err
	}
	return b[pos:next], next, nil
}

func errTruncated(pos int) error {
	return Errorf(Malformed, "the frame ends within the value at %d", pos)
}

func errKeys(n, limit int) error {
	return Errorf(Malformed, "a map of %d keys, want at most %d", n, limit)
}
