package clustertrace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/kubernasium/kubernasium/envs/dataset"
)

// ErrCut is returned by [Reader.Next], [Load] and [Append] for a recording whose last line is not of kind end: its
// recorder was killed or still runs, or the file was truncated. The lines read before are valid.
var ErrCut = errors.New("the recording is cut: it has no last line of kind end")

// zstdWindow bounds the memory that a file can make its reader take.
const zstdWindow = 64 << 20

// A Reader reads the events of a recording, one after the other. It is not safe for concurrent
// use.
type Reader struct {
	Header Header

	name  string
	line  int
	lines *bufio.Reader
	text  []byte // of the current line
	check *checker
	ended bool // the last event was EndOfSegment
	close []func() error
}

// Open opens a recording. Its first bytes say how it is compressed: with zstd, gzip, or not.
func Open(path string) (*Reader, error) {
	f, err := dataset.OpenFile(path)
	if err != nil {
		return nil, fmt.Errorf("clustertrace: %w", err)
	}
	r, err := NewReader(path, f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r.close = append(r.close, f.Close)
	return r, nil
}

// NewReader reads the header of a recording. name stands for it in messages.
func NewReader(name string, in io.Reader) (*Reader, error) {
	r := &Reader{name: name, check: newChecker()}
	plain, err := r.decompress(bufio.NewReaderSize(in, 1<<16))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("no header: %w", ErrCut)
	}
	if err != nil {
		return nil, r.errorf("%w", err)
	}
	r.lines = bufio.NewReaderSize(plain, 1<<16)
	if err := r.readHeader(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Reader) decompress(in *bufio.Reader) (io.Reader, error) {
	magic, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}): // RFC 8878, section 3.1.1
		dec, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, err
		}
		r.close = append(r.close, func() error { dec.Close(); return nil })
		return dec, nil
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}): // RFC 1952, section 2.3.1
		return gzip.NewReader(in)
	}
	return in, nil
}

func (r *Reader) readHeader() error {
	if err := r.readLine(); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return r.errorf("no header: %w", ErrCut)
		}
		return err
	}
	// Another version may have other fields; the error names the version rather than a field.
	var head struct{ Format, Version any }
	_ = json.Unmarshal(r.text, &head)
	if head.Format != Format {
		return r.errorf("the first line is no header of format %q", Format)
	}
	if head.Version != float64(Version) {
		return r.errorf("version %v, want %d", head.Version, Version)
	}
	if err := decode(r.text, &r.Header); err != nil {
		return r.errorf("header: %w", err)
	}
	return nil
}

// readLine reads the next line. It returns io.EOF at the end and io.ErrUnexpectedEOF within a line.
func (r *Reader) readLine() error {
	r.text = r.text[:0]
	for {
		part, err := r.lines.ReadSlice('\n')
		if len(r.text)+len(part) > maxLine {
			r.line++
			return r.errorf("line longer than %d bytes", maxLine)
		}
		r.text = append(r.text, part...)
		switch {
		case err == nil:
			r.line++
			r.text = r.text[:len(r.text)-1]
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(r.text) == 0:
			return io.EOF
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return io.ErrUnexpectedEOF
		default:
			r.line++
			return r.errorf("%w", err)
		}
	}
}

// Next returns the next event, which the caller may keep. After the last one it returns io.EOF, or an error that wraps
// [ErrCut] if that one was not of kind end. Other errors name file and line.
func (r *Reader) Next() (Event, error) {
	err := r.readLine()
	switch {
	case errors.Is(err, io.EOF) && r.ended:
		return Event{}, io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Event{}, r.errorf("%w", ErrCut)
	case err != nil:
		return Event{}, err
	}
	var l line
	if err := decode(r.text, &l); err != nil {
		return Event{}, r.errorf("%w", err)
	}
	if l.After < 0 || l.After > maxMillis || l.Ago < 0 || l.Ago > maxMillis {
		return Event{}, r.errorf("t %d and ago %d, want 0 to %d milliseconds", l.After, l.Ago, maxMillis)
	}
	if r.ended && l.Kind != Gap {
		return Event{}, r.errorf("%s after the end, want %s or nothing", l.Kind, Gap)
	}
	e := l.event(r.check.at)
	if err := r.check.admit(&e); err != nil {
		return Event{}, r.errorf("%w", err)
	}
	r.ended = e.Kind == EndOfSegment
	return e, nil
}

// Templates returns the templates read so far, by number. The caller must not change them.
func (r *Reader) Templates() []*Template { return r.check.templates }

// Line returns the number of lines read.
func (r *Reader) Line() int { return r.line }

// Close closes what [Open] opened.
func (r *Reader) Close() error {
	var all []error
	for _, f := range r.close {
		all = append(all, f())
	}
	r.close = nil
	return errors.Join(all...)
}

func (r *Reader) errorf(format string, args ...any) error {
	return fmt.Errorf("clustertrace: %s:%d: "+format, append([]any{r.name, r.line}, args...)...)
}
