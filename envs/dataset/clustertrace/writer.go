package clustertrace

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A Writer writes a recording. It checks events as a [Reader] does. It is not safe for concurrent
// use.
type Writer struct {
	out    *bufio.Writer
	pack   packer // nil: not compressed
	file   *os.File
	check  *checker
	known  map[string]int32 // templates by their JSON
	events int
	bytes  int64 // of lines
	err    error // first error of a write; later writes return it
}

// packer is the common interface of zstd's and gzip's writers.
type packer interface {
	io.WriteCloser
	Flush() error
}

// Create begins a recording in a new file. The name's end selects the compression: zstd for .zst, gzip for .gz, else
// none. Create does not replace a file.
func Create(path string, h Header) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("clustertrace: %w", err)
	}
	w, err := newWriter(f, filepath.Ext(path), newChecker())
	if err == nil {
		err = w.header(h)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	w.file = f
	return w, nil
}

// NewWriter begins an uncompressed recording on out.
func NewWriter(out io.Writer, h Header) (*Writer, error) {
	w, err := newWriter(out, "", newChecker())
	if err != nil {
		return nil, err
	}
	return w, w.header(h)
}

func newWriter(out io.Writer, ext string, c *checker) (*Writer, error) {
	w := &Writer{check: c, known: map[string]int32{}}
	switch strings.ToLower(ext) {
	case ".zst":
		enc, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(8<<20))
		if err != nil {
			return nil, err
		}
		w.pack, out = enc, enc
	case ".gz":
		enc := gzip.NewWriter(out)
		w.pack, out = enc, enc
	}
	w.out = bufio.NewWriterSize(out, 1<<16)
	for i, t := range c.templates {
		text, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		w.known[string(text)] = int32(i)
	}
	return w, nil
}

func (w *Writer) header(h Header) error {
	h.Format, h.Version = Format, Version
	h.Start = h.Start.UTC().Truncate(time.Millisecond)
	return w.put(h)
}

// put writes a line.
func (w *Writer) put(v any) error {
	if w.err != nil {
		return w.err
	}
	text, err := json.Marshal(v)
	switch {
	case err != nil:
		w.err = fmt.Errorf("clustertrace: %w", err)
	case len(text) >= maxLine:
		w.err = fmt.Errorf("clustertrace: line of %d bytes, want at most %d", len(text), maxLine-1)
	default:
		n, err := w.out.Write(append(text, '\n'))
		if w.bytes += int64(n); err != nil {
			w.err = fmt.Errorf("clustertrace: %w", err)
		}
	}
	return w.err
}

// Write writes an event. It truncates times to milliseconds, and sets e.Template, e.Node or e.Pod to the number of the
// object that the event adds. Write returns an error for an event that [Reader] would reject; the Writer stays usable.
// The Writer keeps what e points to; the caller must not change it.
func (w *Writer) Write(e *Event) error {
	e.At, e.Ago = e.At.Truncate(time.Millisecond), e.Ago.Truncate(time.Millisecond)
	before := w.check.at
	if err := w.check.admit(e); err != nil {
		return fmt.Errorf("clustertrace: %w", err)
	}
	w.events++
	return w.put(lineOf(e, before))
}

// Template returns the number of a template. It writes the template as an event at the given time unless an equal one
// exists. The caller must not change t later.
func (w *Writer) Template(at time.Duration, t *Template) (int32, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return 0, fmt.Errorf("clustertrace: %w", err)
	}
	if i, ok := w.known[string(text)]; ok {
		return i, nil
	}
	e := Event{Kind: AddTemplate, At: at, Spec: t}
	if err := w.Write(&e); err != nil {
		return 0, err
	}
	w.known[string(text)] = e.Template
	return e.Template, nil
}

// Events returns the number of events written.
func (w *Writer) Events() int { return w.events }

// Bytes returns the size of the lines written, before compression.
func (w *Writer) Bytes() int64 { return w.bytes }

// Flush writes buffered events to the file, so that readers see them even if the program is killed. Each call costs
// some compression; call it every few seconds.
func (w *Writer) Flush() error {
	if w.err == nil {
		w.err = w.out.Flush()
	}
	if w.err == nil && w.pack != nil {
		w.err = w.pack.Flush()
	}
	return w.err
}

// Close writes the last line, of kind end, and closes the file. The line's time is the given one or that of the last
// event, whichever is later.
func (w *Writer) Close(at time.Duration) error {
	w.err = errors.Join(w.err, w.Write(&Event{Kind: EndOfSegment, At: max(at, w.check.at)}))
	return w.finish()
}

// finish closes the file as it is.
func (w *Writer) finish() error {
	all := []error{w.err, w.out.Flush()}
	if w.pack != nil {
		all = append(all, w.pack.Close())
	}
	if w.file != nil {
		all = append(all, w.file.Sync(), w.file.Close())
	}
	w.err = cmp.Or(w.err, errors.New("clustertrace: the recording is closed"))
	return errors.Join(all...)
}

// Append opens a recording to continue it, and returns its content. It first replaces a truncated recording by its
// readable part. The first event to write is a [Gap].
func Append(path string) (*Writer, *Trace, error) {
	r, err := Open(path)
	if err != nil {
		return nil, nil, err
	}
	t, err := read(r)
	good := r.line
	if err := errors.Join(r.Close(), ignoreCut(err)); err != nil {
		return nil, nil, err
	}
	if err != nil {
		if err := salvage(path, t, good); err != nil {
			return nil, nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("clustertrace: %w", err)
	}
	w, err := newWriter(f, filepath.Ext(path), r.check)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	w.file = f
	return w, t, nil
}

func ignoreCut(err error) error {
	if errors.Is(err, ErrCut) {
		return nil
	}
	return err
}

// salvage replaces the recording by its first lines.
func salvage(path string, t *Trace, lines int) (err error) {
	r, err := Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("clustertrace: %w", err)
	}
	defer os.Remove(f.Name()) // no longer there after the rename
	w, err := newWriter(f, filepath.Ext(path), newChecker())
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.file = f
	if err := w.put(t.Header); err != nil {
		return errors.Join(err, w.finish())
	}
	for r.line < lines {
		if err := r.readLine(); err != nil {
			return errors.Join(r.errorf("%w", err), w.finish())
		}
		if _, err := w.out.Write(append(r.text, '\n')); err != nil {
			return errors.Join(err, w.finish())
		}
	}
	if err := w.finish(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
