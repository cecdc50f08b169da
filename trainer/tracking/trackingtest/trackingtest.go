// Package trackingtest reads TensorBoard's event files in tests. It follows TensorFlow's
// definitions and shares no code with the writer.
package trackingtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrCorrupt is returned by ReadEvents for a record whose checksum or contents are wrong.
var ErrCorrupt = errors.New("trackingtest: corrupt event file")

const maxRecord = 64 << 20 // bytes; an event of scalars is some hundred bytes

// Field numbers of tensorflow.Event, Summary, Summary.Value, SessionLog and HistogramProto.
// Source: tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto.
const (
	eventWallTime    = protowire.Number(1)
	eventStep        = protowire.Number(2)
	eventFileVersion = protowire.Number(3)
	eventSummary     = protowire.Number(5)
	eventSessionLog  = protowire.Number(7)

	summaryValue = protowire.Number(1)

	valueTag    = protowire.Number(1)
	valueSimple = protowire.Number(2)
	valueHisto  = protowire.Number(5)

	sessionStatus = protowire.Number(1)
	sessionStart  = 1 // SessionLog.START

	histoMin        = protowire.Number(1)
	histoMax        = protowire.Number(2)
	histoNum        = protowire.Number(3)
	histoSum        = protowire.Number(4)
	histoSumSquares = protowire.Number(5)
	histoLimit      = protowire.Number(6)
	histoBucket     = protowire.Number(7)
)

// Event is one record of an event file, as far as package tracking writes it.
type Event struct {
	WallTime     float64 // seconds since the Unix epoch
	Step         int64   // timesteps
	FileVersion  string  // in a file's first event only
	SessionStart bool    // discards points at this step and later in earlier files
	Scalars      []Scalar
	Histograms   []TaggedHistogram
}

// Histogram is a HistogramProto, whose fields are those of tracking.Histogram.
type Histogram struct {
	Min, Max        float64
	Num             float64
	Sum, SumSquares float64
	Limits          []float64
	Counts          []float64
}

// TaggedHistogram is a tag's histogram in an Event.
type TaggedHistogram struct {
	Tag string
	Histogram
}

// Scalar is a tag's value in an Event.
type Scalar struct {
	Tag   string
	Value float32
}

// ReadEvents reads an event file to its end. It skips fields that Event does not have. With an error it also
// returns the events before it. The error is io.ErrUnexpectedEOF for a truncated record, as after a crash, and
// ErrCorrupt for an invalid one.
func ReadEvents(r io.Reader) ([]Event, error) {
	var events []Event
	for {
		payload, err := ReadRecord(r)
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, fmt.Errorf("read event %d: %w", len(events), err)
		}
		event, err := parseEvent(payload)
		if err != nil {
			return events, fmt.Errorf("read event %d: %w", len(events), err)
		}
		events = append(events, event)
	}
}

// ReadRecord reads one TFRecord. It returns io.EOF if r ends before the record begins.
func ReadRecord(r io.Reader) ([]byte, error) {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	if got, want := maskedCRC(head[:8]), binary.LittleEndian.Uint32(head[8:]); got != want {
		return nil, fmt.Errorf("%w: length has checksum %#x, want %#x", ErrCorrupt, got, want)
	}
	length := binary.LittleEndian.Uint64(head[:8])
	if length > maxRecord {
		return nil, fmt.Errorf("%w: record of %d bytes, want at most %d", ErrCorrupt, length, maxRecord)
	}
	// The buffer grows with the data read, not with the claimed length.
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r, int64(length)+4); err == io.EOF {
		return nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, err
	}
	payload, foot := body.Bytes()[:length], body.Bytes()[length:]
	if got, want := maskedCRC(payload), binary.LittleEndian.Uint32(foot); got != want {
		return nil, fmt.Errorf("%w: payload has checksum %#x, want %#x", ErrCorrupt, got, want)
	}
	return payload, nil
}

// field is one field of a protocol buffer: its number, its wire type, and its value, which is
// in raw for BytesType and in bits for the other types.
type field struct {
	num  protowire.Number
	typ  protowire.Type
	bits uint64
	raw  []byte
}

// eachField calls visit for each field of the message b and stops at the first error.
func eachField(b []byte, visit func(field) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrCorrupt, protowire.ParseError(n))
		}
		b = b[n:]
		f := field{num: num, typ: typ}
		switch typ {
		case protowire.VarintType:
			f.bits, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var bits uint32
			bits, n = protowire.ConsumeFixed32(b)
			f.bits = uint64(bits)
		case protowire.Fixed64Type:
			f.bits, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			f.raw, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return fmt.Errorf("%w: field %d: %w", ErrCorrupt, num, protowire.ParseError(n))
		}
		b = b[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

func parseEvent(b []byte) (Event, error) {
	var e Event
	err := eachField(b, func(f field) error {
		switch {
		case f.num == eventWallTime && f.typ == protowire.Fixed64Type:
			e.WallTime = math.Float64frombits(f.bits)
		case f.num == eventStep && f.typ == protowire.VarintType:
			e.Step = int64(f.bits)
		case f.num == eventFileVersion && f.typ == protowire.BytesType:
			e.FileVersion = string(f.raw)
		case f.num == eventSummary && f.typ == protowire.BytesType:
			return parseSummary(f.raw, &e)
		case f.num == eventSessionLog && f.typ == protowire.BytesType:
			return parseSessionLog(f.raw, &e)
		}
		return nil
	})
	return e, err
}

// parseSummary appends the scalars and histograms of a Summary to e, and skips other values.
func parseSummary(b []byte, e *Event) error {
	return eachField(b, func(f field) error {
		if f.num != summaryValue || f.typ != protowire.BytesType {
			return nil
		}
		var s Scalar
		simple := false
		var histogram *Histogram
		err := eachField(f.raw, func(f field) error {
			switch {
			case f.num == valueTag && f.typ == protowire.BytesType:
				s.Tag = string(f.raw)
			case f.num == valueSimple && f.typ == protowire.Fixed32Type:
				s.Value, simple = math.Float32frombits(uint32(f.bits)), true
			case f.num == valueHisto && f.typ == protowire.BytesType:
				histogram = &Histogram{}
				return histogram.parse(f.raw)
			}
			return nil
		})
		if histogram != nil {
			e.Histograms = append(e.Histograms, TaggedHistogram{s.Tag, *histogram})
		}
		if simple {
			e.Scalars = append(e.Scalars, s)
		}
		return err
	})
}

func parseSessionLog(b []byte, e *Event) error {
	return eachField(b, func(f field) error {
		if f.num == sessionStatus && f.typ == protowire.VarintType {
			e.SessionStart = f.bits == sessionStart
		}
		return nil
	})
}

// parse reads a HistogramProto.
func (h *Histogram) parse(b []byte) error {
	numbers := map[protowire.Number]*float64{histoMin: &h.Min, histoMax: &h.Max, histoNum: &h.Num, histoSum: &h.Sum, histoSumSquares: &h.SumSquares}
	lists := map[protowire.Number]*[]float64{histoLimit: &h.Limits, histoBucket: &h.Counts}
	return eachField(b, func(f field) error {
		if x := numbers[f.num]; x != nil && f.typ == protowire.Fixed64Type {
			*x = math.Float64frombits(f.bits)
		}
		list := lists[f.num]
		if list == nil || f.typ != protowire.BytesType {
			return nil
		}
		for raw := f.raw; len(raw) > 0; {
			bits, n := protowire.ConsumeFixed64(raw)
			if n < 0 {
				return fmt.Errorf("%w: field %d: %w", ErrCorrupt, f.num, protowire.ParseError(n))
			}
			*list, raw = append(*list, math.Float64frombits(bits)), raw[n:]
		}
		return nil
	})
}

// maskedCRC returns the CRC-32C of b, rotated and offset.
// Source: tensorflow/core/lib/hash/crc32c.h.
func maskedCRC(b []byte) uint32 {
	c := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return (c>>15 | c<<17) + 0xa282ead8
}
