package minari

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// verify makes the checks that the Arrow library omits: the footer and the headers of the batches lie within
// the file, and claim no more values than their bytes can hold. A damaged number there could cost all memory,
// or years. verify returns an error for a damaged file, or panics.
//
// Layout: Arrow columnar format 1.5, "IPC File Format", with format/File.fbs, Schema.fbs and Message.fbs;
// FlatBuffers internals.
func verify(r io.ReaderAt, size int64) error {
	const magic, tail = 8, 10 // bytes of the padded "ARROW1"; of the footer's length and "ARROW1"
	if size < magic+tail {
		return errors.New("too short")
	}
	end, err := read(r, size-tail, tail)
	if err != nil {
		return err
	}
	n := int64(int32(binary.LittleEndian.Uint32(end)))
	if n < 4 || n > size-magic-tail {
		return fmt.Errorf("a footer of %d bytes in a file of %d", n, size)
	}
	footer, err := read(r, size-tail-n, n)
	if err != nil {
		return err
	}
	v := verifier{footer, len(footer)}
	if err := v.table(v.start(), &footerTable); err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	if _, n := v.vector(v.start(), footerDictionaries); n > 0 {
		return errors.New("dictionaries are not read")
	}
	at, blocks := v.vector(v.start(), footerBatches)
	for i := range blocks {
		b := footer[at+24*i:] // offset, length of the header with 4 bytes of padding, length of the body
		offset, header, body := int64(binary.LittleEndian.Uint64(b)), int64(int32(binary.LittleEndian.Uint32(b[8:]))), int64(binary.LittleEndian.Uint64(b[16:]))
		if offset < magic || header < 12 || body < 0 || header > size-offset || body > size-offset-header {
			return fmt.Errorf("batch %d is not in the file", i)
		}
		message, err := read(r, offset, header)
		if err != nil {
			return err
		}
		if err := verifyBatch(message[8:], body); err != nil { // after a marker and the length
			return fmt.Errorf("batch %d: %w", i, err)
		}
	}
	return nil
}

func read(r io.ReaderAt, offset, n int64) ([]byte, error) {
	b := make([]byte, n)
	_, err := r.ReadAt(b, offset)
	return b, err
}

// verifyBatch checks the header of a batch whose body has the given number of bytes.
func verifyBatch(message []byte, body int64) error {
	v := verifier{message, len(message)}
	if err := v.table(v.start(), &messageTable); err != nil {
		return err
	}
	batch, ok := v.reference(v.start(), messageHeader)
	if !ok {
		return errors.New("no header")
	}
	if _, ok := v.field(batch, batchCompression); ok {
		return errors.New("compressed columns are not read")
	}
	most := uint64(max(8*body, maxRows)) // values of one bit, or none
	if p, ok := v.field(batch, batchLength); ok && binary.LittleEndian.Uint64(message[p:]) > maxRows {
		return fmt.Errorf("%d rows, want at most %d", int64(binary.LittleEndian.Uint64(message[p:])), maxRows)
	}
	at, nodes := v.vector(batch, batchNodes)
	for i := range nodes { // length, nulls
		if n := binary.LittleEndian.Uint64(message[at+16*i:]); n > most {
			return fmt.Errorf("an array of %d values in %d bytes", int64(n), body)
		}
	}
	at, buffers := v.vector(batch, batchBuffers)
	for i := range buffers { // offset, length
		from, n := binary.LittleEndian.Uint64(message[at+16*i:]), binary.LittleEndian.Uint64(message[at+16*i+8:])
		if from > uint64(body) || n > uint64(body)-from {
			return fmt.Errorf("buffer %d is not in the body", i)
		}
	}
	return nil
}

// A table describes, by slot, which fields of a FlatBuffers table refer to other data.
type table struct {
	vectors map[int]int                      // vectors of numbers, structs or characters: bytes of an element
	tables  map[int]*table                   // tables
	lists   map[int]*table                   // vectors of tables
	check   func(v *verifier, pos int) error // nil: none
}

// Slots that verify reads.
const (
	fieldType                                               = 2
	footerDictionaries, footerBatches                       = 2, 3
	messageHeader                                           = 2
	batchLength, batchNodes, batchBuffers, batchCompression = 0, 1, 2, 3
)

// union is the type of columns of several types, the only type whose description has a vector.
const union = 14

var (
	keyValue   = table{vectors: map[int]int{0: 1, 1: 1}}
	fieldTable = table{
		vectors: map[int]int{0: 1}, tables: map[int]*table{3: {}, 4: {tables: map[int]*table{1: {}}}}, lists: map[int]*table{6: &keyValue},
		check: func(v *verifier, pos int) error {
			if p, ok := v.field(pos, fieldType); ok && v.buf[p] == union {
				return errors.New("unions are not read")
			}
			return nil
		},
	}
	schemaTable = table{vectors: map[int]int{3: 8}, lists: map[int]*table{1: &fieldTable, 2: &keyValue}}
	footerTable = table{
		vectors: map[int]int{footerDictionaries: 24, footerBatches: 24}, tables: map[int]*table{1: &schemaTable}, lists: map[int]*table{4: &keyValue},
	}
	batchTable   = table{vectors: map[int]int{batchNodes: 16, batchBuffers: 16, 4: 8}, tables: map[int]*table{batchCompression: {}}}
	messageTable = table{tables: map[int]*table{messageHeader: &batchTable}, lists: map[int]*table{4: &keyValue}}
)

func init() { fieldTable.lists[5] = &fieldTable } // children

// A verifier follows the references of a FlatBuffers buffer.
type verifier struct {
	buf  []byte
	left int // number of tables that may still be visited; the buffer cannot hold more
}

// start returns the position of the root table.
func (v *verifier) start() int { return int(binary.LittleEndian.Uint32(v.buf)) }

// table checks the table at pos and what it refers to.
func (v *verifier) table(pos int, t *table) error {
	if v.left--; v.left < 0 {
		return errors.New("more tables than bytes")
	}
	if t.check != nil {
		if err := t.check(v, pos); err != nil {
			return err
		}
	}
	for slot, size := range t.vectors {
		if err := v.vectorFits(pos, slot, size); err != nil {
			return err
		}
	}
	for slot, of := range t.tables {
		if p, ok := v.reference(pos, slot); ok {
			if err := v.table(p, of); err != nil {
				return err
			}
		}
	}
	for slot, of := range t.lists {
		if err := v.vectorFits(pos, slot, 4); err != nil {
			return err
		}
		at, n := v.vector(pos, slot)
		for p := at; p < at+4*n; p += 4 {
			if err := v.table(p+int(binary.LittleEndian.Uint32(v.buf[p:])), of); err != nil {
				return err
			}
		}
	}
	return nil
}

// slots returns the position of the offsets of a table's fields.
func (v *verifier) slots(pos int) int {
	return pos - int(int32(binary.LittleEndian.Uint32(v.buf[pos:])))
}

// field returns the position of a field, if the table has it.
func (v *verifier) field(pos, slot int) (p int, ok bool) {
	slots := v.slots(pos)
	if i := 4 + 2*slot; i+2 <= int(binary.LittleEndian.Uint16(v.buf[slots:])) {
		if offset := int(binary.LittleEndian.Uint16(v.buf[slots+i:])); offset != 0 {
			return pos + offset, true
		}
	}
	return 0, false
}

// reference returns the position to which a field refers, which may lie outside the buffer.
func (v *verifier) reference(pos, slot int) (p int, ok bool) {
	p, ok = v.field(pos, slot)
	if !ok {
		return 0, false
	}
	return p + int(binary.LittleEndian.Uint32(v.buf[p:])), true
}

// vectorFits checks that a vector and its elements lie within the buffer, if the table has the vector.
func (v *verifier) vectorFits(pos, slot, size int) error {
	p, ok := v.reference(pos, slot)
	if ok && int(binary.LittleEndian.Uint32(v.buf[p:])) > (len(v.buf)-4-p)/size {
		return errors.New("a vector with more elements than there are bytes")
	}
	return nil
}

// vector returns the position of a vector's first element and the number of elements, or 0 elements if the
// table has no such vector.
func (v *verifier) vector(pos, slot int) (at, n int) {
	p, ok := v.reference(pos, slot)
	if !ok {
		return 0, 0
	}
	return p + 4, int(binary.LittleEndian.Uint32(v.buf[p:]))
}
