package dataset

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
)

const (
	maxFile = 4 << 30 // bytes of a data file
	maxLine = 1 << 20 // bytes of a row of a CSV file
)

// OpenFile opens a data file for reading. It rejects pipes and devices, which may never end, and files of more than 4
// GiB.
func OpenFile(path string) (*os.File, error) {
	info, err := os.Stat(path) // before Open, which may block on a pipe
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file (%v)", path, info.Mode().Type())
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes, want at most %d", path, info.Size(), int64(maxFile))
	}
	return os.Open(path)
}

// UntilDone returns a reader of r that fails once ctx has ended, with its error.
func UntilDone(ctx context.Context, r io.Reader) io.Reader { return &untilDone{ctx, r} }

type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// rows reads a CSV file and fails at a row longer than maxLine.
type rows struct {
	r      *bufio.Reader
	length int  // of the row so far
	quoted bool // within a quoted field, where a line end does not end the row
}

// errLongRow is the error of a row that is longer than maxLine.
var errLongRow = fmt.Errorf("a row of more than %d bytes", maxLine)

// Read implements [io.Reader].
func (r *rows) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	for _, b := range p[:n] {
		r.length++
		switch {
		case b == '"':
			r.quoted = !r.quoted
		case b == '\n' && !r.quoted:
			r.length = 0
		}
	}
	if r.length > maxLine {
		return 0, errLongRow
	}
	return n, err
}

var _ io.Reader = (*rows)(nil)
