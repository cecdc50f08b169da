package tracking

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of tensorflow.Event, Summary, Summary.Value and SessionLog.
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

	sessionStatus = protowire.Number(1)
	sessionStart  = 1 // SessionLog.START
)

const (
	fileVersion = "brain.Event:2"
	eventPrefix = "events.out.tfevents."
)

var (
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
	writerCount atomic.Int64 // distinguishes the files of one process
)

// EventWriter writes scalars to a TensorBoard event file. It is not safe for concurrent use. Flush, Close and a
// full buffer write its buffer to the file.
type EventWriter struct {
	file *os.File
	w    *bufio.Writer
	now  func() time.Time
	buf  []byte
}

// NewEventWriter creates a new event file in folder, and the folder if necessary. now returns the wall time of
// each event and of the file's name; nil means time.Now.
func NewEventWriter(folder string, now func() time.Time) (*EventWriter, error) {
	if now == nil {
		now = time.Now
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("create event file: %w", err)
	}
	stamp, err := nextStamp(folder, now().Unix())
	if err != nil {
		return nil, fmt.Errorf("create event file in %s: %w", folder, err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	name := fmt.Sprintf("%s%d.%s.%d.%d", eventPrefix, stamp, host, os.Getpid(), writerCount.Add(1)-1)
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create event file: %w", err)
	}
	w := &EventWriter{file: file, w: bufio.NewWriter(file), now: now}
	event := w.begin(0)
	event = protowire.AppendTag(event, eventFileVersion, protowire.BytesType)
	event = protowire.AppendString(event, fileVersion)
	if err := w.end(event); err != nil {
		_ = file.Close()
		return nil, err
	}
	return w, nil
}

// ResumeEventWriter is NewEventWriter for a run that resumes from a checkpoint at timestep step. Its file
// begins with a mark that makes TensorBoard discard points of later timesteps in the folder's earlier files.
func ResumeEventWriter(folder string, step int64, now func() time.Time) (*EventWriter, error) {
	w, err := NewEventWriter(folder, now)
	if err != nil {
		return nil, err
	}
	log := protowire.AppendTag(nil, sessionStatus, protowire.VarintType)
	log = protowire.AppendVarint(log, sessionStart)
	event := w.begin(step + 1) // TensorBoard keeps the steps below that of the mark
	event = protowire.AppendTag(event, eventSessionLog, protowire.BytesType)
	event = protowire.AppendBytes(event, log)
	if err := w.end(event); err != nil {
		_ = w.file.Close()
		return nil, err
	}
	return w, nil
}

// nextStamp returns unix or, if that is larger, one more than the largest stamp among folder's event files,
// because TensorBoard reads the files of a folder in name order.
func nextStamp(folder string, unix int64) (int64, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), eventPrefix)
		if !ok {
			continue
		}
		text, _, _ := strings.Cut(rest, ".")
		if s, err := strconv.ParseInt(text, 10, 64); err == nil && s >= unix && s < math.MaxInt64 {
			unix = s + 1
		}
	}
	return unix, nil
}

// Scalars writes one event with the scalars at the timestep step, tags in sorted order. The format stores
// values as float32. An empty map writes nothing.
func (w *EventWriter) Scalars(step int64, values map[string]float64) error {
	var summary []byte
	for _, tag := range slices.Sorted(maps.Keys(values)) {
		simple := protowire.AppendTag(nil, valueSimple, protowire.Fixed32Type)
		summary = appendValue(summary, tag, protowire.AppendFixed32(simple, math.Float32bits(float32(values[tag]))))
	}
	return w.writeSummary(step, summary)
}

// appendValue appends a value of the given tag to a Summary; content is the field with its number or histogram.
func appendValue(summary []byte, tag string, content []byte) []byte {
	value := protowire.AppendTag(nil, valueTag, protowire.BytesType)
	value = append(protowire.AppendString(value, tag), content...)
	summary = protowire.AppendTag(summary, summaryValue, protowire.BytesType)
	return protowire.AppendBytes(summary, value)
}

// writeSummary writes an event with a summary, unless that is empty.
func (w *EventWriter) writeSummary(step int64, summary []byte) error {
	if summary == nil {
		return nil
	}
	event := w.begin(step)
	event = protowire.AppendTag(event, eventSummary, protowire.BytesType)
	return w.end(protowire.AppendBytes(event, summary))
}

// Flush writes the buffer to the file.
func (w *EventWriter) Flush() error {
	if err := w.w.Flush(); err != nil {
		return fmt.Errorf("flush %s: %w", w.file.Name(), err)
	}
	return nil
}

// Close flushes and closes the file.
func (w *EventWriter) Close() error {
	err := w.Flush()
	if cerr := w.file.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close %s: %w", w.file.Name(), cerr)
	}
	return err
}

// begin returns the writer's buffer with an event's wall time and step.
func (w *EventWriter) begin(step int64) []byte {
	wall := float64(w.now().UnixNano()) / 1e9
	b := protowire.AppendTag(w.buf[:0], eventWallTime, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(wall))
	b = protowire.AppendTag(b, eventStep, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(step))
}

// end writes the event and keeps its memory for the next one.
func (w *EventWriter) end(event []byte) error {
	w.buf = event
	if err := writeRecord(w.w, event); err != nil {
		return fmt.Errorf("write %s: %w", w.file.Name(), err)
	}
	return nil
}

// writeRecord writes one TFRecord: the payload's length as a little-endian uint64, that
// length's masked CRC-32C, the payload, and the payload's masked CRC-32C.
//
// Source: https://www.tensorflow.org/tutorials/load_data/tfrecord.
func writeRecord(w io.Writer, payload []byte) error {
	var head [12]byte
	binary.LittleEndian.PutUint64(head[:8], uint64(len(payload)))
	binary.LittleEndian.PutUint32(head[8:], maskedCRC(head[:8]))
	var foot [4]byte
	binary.LittleEndian.PutUint32(foot[:], maskedCRC(payload))
	for _, part := range [][]byte{head[:], payload, foot[:]} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// maskedCRC returns the CRC-32C of b, rotated and offset, so that a CRC may itself be part of a CRC's data.
func maskedCRC(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}
