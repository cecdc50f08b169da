package tracking

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/trainer/tracking/trackingtest"
)

// fixedClock returns a clock that stands at 2024-01-01T00:00:00.5Z, Unix 1704067200.5.
func fixedClock() time.Time { return time.Date(2024, 1, 1, 0, 0, 0, 500_000_000, time.UTC) }

func newWriter(t *testing.T, folder string) *EventWriter {
	t.Helper()
	w, err := NewEventWriter(folder, fixedClock)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func writeScalars(t *testing.T, w *EventWriter, step int64, values map[string]float64) {
	t.Helper()
	if err := w.Scalars(step, values); err != nil {
		t.Fatal(err)
	}
}

func closeWriter(t *testing.T, w io.Closer) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestMaskedCRC(t *testing.T) {
	// CRC-32C("123456789") = 0xe3069283 (RFC 3720, check value of the polynomial). Masked, by
	// hand: rotated right by 15 it is 0x2507c60d, and + 0xa282ead8 = 0xc78ab0e5.
	if got, want := maskedCRC([]byte("123456789")), uint32(0xc78ab0e5); got != want {
		t.Errorf("maskedCRC(123456789) = %#x, want %#x", got, want)
	}
}

// TestEventBytes compares the payloads with bytes worked out by hand from event.proto.
func TestEventBytes(t *testing.T) {
	w := newWriter(t, t.TempDir())
	writeScalars(t, w, 300, map[string]float64{"b": 1, "a": -2})
	closeWriter(t, w)
	file, err := os.Open(w.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const wall = "09" + "000020208064d941" // Python: struct.pack("<d", 1704067200.5)
	for i, want := range []string{
		wall + "1000" + "1a0d" + hex.EncodeToString([]byte("brain.Event:2")),
		wall + "10ac02" + "2a14" + // step 300; summary of 20 bytes
			"0a08" + "0a0161" + "15000000c0" + // a: float32 -2
			"0a08" + "0a0162" + "150000803f", // b: float32 1
	} {
		payload, err := trackingtest.ReadRecord(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(payload); got != want {
			t.Errorf("event %d = %s, want %s", i, got, want)
		}
	}
}

func TestEventsRoundTrip(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "folder")
	w := newWriter(t, folder)
	writeScalars(t, w, 0, map[string]float64{"time/fps": 1000})
	writeScalars(t, w, 1<<40, map[string]float64{"train/loss": 0.25, "eval/mean_reward": math.Inf(1)})
	writeScalars(t, w, 7, nil)
	closeWriter(t, w)

	name := filepath.Base(w.file.Name())
	if !regexp.MustCompile(`^events\.out\.tfevents\.1704067200\..+\.\d+\.\d+$`).MatchString(name) {
		t.Errorf("file name %s, want events.out.tfevents.1704067200.<host>.<pid>.<n>", name)
	}
	data, err := os.ReadFile(w.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	got, err := trackingtest.ReadEvents(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	want := []trackingtest.Event{
		{WallTime: 1704067200.5, FileVersion: "brain.Event:2"},
		{WallTime: 1704067200.5, Scalars: []trackingtest.Scalar{{Tag: "time/fps", Value: 1000}}},
		{WallTime: 1704067200.5, Step: 1 << 40, Scalars: []trackingtest.Scalar{
			{Tag: "eval/mean_reward", Value: float32(math.Inf(1))}, {Tag: "train/loss", Value: 0.25},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
}

func TestResumeEventWriter(t *testing.T) {
	folder := t.TempDir()
	first := newWriter(t, folder)
	closeWriter(t, first)
	second, err := ResumeEventWriter(folder, 100, fixedClock)
	if err != nil {
		t.Fatal(err)
	}
	closeWriter(t, second)
	if a, b := filepath.Base(first.file.Name()), filepath.Base(second.file.Name()); a >= b {
		t.Errorf("resumed file %s does not sort after %s", b, a)
	}
	data, err := os.ReadFile(second.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	events, err := trackingtest.ReadEvents(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 2 || !events[1].SessionStart || events[1].Step != 101 {
		t.Errorf("events = %+v, want a version and a session start at step 101", events)
	}
}

func TestNewEventWriterBadFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := NewEventWriter(file, nil); err == nil {
		t.Error("NewEventWriter in a file's place: no error")
	}
}

func TestReadEventsErrors(t *testing.T) {
	var record bytes.Buffer
	if err := writeRecord(&record, []byte{0x10, 0x05}); err != nil { // step 5
		t.Fatal(err)
	}
	good := record.Bytes()
	flip := func(i int) []byte {
		b := bytes.Clone(good)
		b[i] ^= 1
		return b
	}
	huge := binary.LittleEndian.AppendUint64(nil, 1<<40)
	huge = binary.LittleEndian.AppendUint32(huge, maskedCRC(huge))
	var badProto bytes.Buffer
	if err := writeRecord(&badProto, []byte{0x2a, 0x7f}); err != nil { // summary of 127 bytes, absent
		t.Fatal(err)
	}
	tests := []struct {
		name string
		tail []byte
		want error
	}{
		{"nothing", nil, nil},
		{"head cut short", good[:5], io.ErrUnexpectedEOF},
		{"payload missing", good[:12], io.ErrUnexpectedEOF},
		{"payload cut short", good[:13], io.ErrUnexpectedEOF},
		{"checksum cut short", good[:len(good)-1], io.ErrUnexpectedEOF},
		{"length flipped", flip(0), trackingtest.ErrCorrupt},
		{"payload flipped", flip(13), trackingtest.ErrCorrupt},
		{"checksum flipped", flip(len(good) - 1), trackingtest.ErrCorrupt},
		{"record too long", huge, trackingtest.ErrCorrupt},
		{"payload is no Event", badProto.Bytes(), trackingtest.ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events, err := trackingtest.ReadEvents(bytes.NewReader(append(bytes.Clone(good), tt.tail...)))
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if diff := cmp.Diff([]trackingtest.Event{{Step: 5}}, events); diff != "" {
				t.Errorf("events before the error differ (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzReadEvents(f *testing.F) {
	var record bytes.Buffer
	_ = writeRecord(&record, []byte{0x10, 0x05, 0x2a, 0x0a, 0x0a, 0x08, 0x0a, 0x01, 'a', 0x15, 0, 0, 0, 0xc0})
	f.Add(record.Bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = trackingtest.ReadEvents(bytes.NewReader(data))
		// A payload of any bytes in a sound frame reaches the parser of the message.
		var framed bytes.Buffer
		if err := writeRecord(&framed, data); err != nil {
			t.Fatal(err)
		}
		if _, err := trackingtest.ReadEvents(&framed); err != nil && !errors.Is(err, trackingtest.ErrCorrupt) {
			t.Errorf("error %v, want ErrCorrupt", err)
		}
	})
}

// TestTensorBoardReadsOurEvents compares what TensorBoard's EventAccumulator reads, over a run
// that was resumed at timestep 200, with what was written.
func TestTensorBoardReadsOurEvents(t *testing.T) {
	python := os.Getenv("TENSORBOARD_PYTHON")
	if python == "" {
		t.Skip("set TENSORBOARD_PYTHON to a Python that has the pip package tensorboard")
	}
	folder := t.TempDir()
	first := newWriter(t, folder)
	for _, step := range []int64{100, 200, 300, 400} {
		writeScalars(t, first, step, map[string]float64{"rollout/ep_rew_mean": float64(step), "time/fps": 1})
	}
	closeWriter(t, first)
	second, err := ResumeEventWriter(folder, 200, fixedClock)
	if err != nil {
		t.Fatal(err)
	}
	writeScalars(t, second, 300, map[string]float64{"rollout/ep_rew_mean": -0.5, "train/loss": 1e-3})
	closeWriter(t, second)

	out, err := exec.Command(python, filepath.Join("testdata", "check_tensorboard.py"), folder).Output()
	if err != nil {
		t.Fatalf("check_tensorboard.py: %v", err)
	}
	var got map[string][][3]float64
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("check_tensorboard.py printed %s: %v", out, err)
	}
	const wall = 1704067200.5
	want := map[string][][3]float64{
		"rollout/ep_rew_mean": {{wall, 100, 100}, {wall, 200, 200}, {wall, 300, -0.5}},
		"time/fps":            {{wall, 100, 1}, {wall, 200, 1}},
		"train/loss":          {{wall, 300, float64(float32(1e-3))}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("points differ (-want +got):\n%s", diff)
	}
}
