// Package fetch downloads files over HTTP. It resumes, retries, verifies a digest, and replaces the file
// atomically when the download is complete.
package fetch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Errors that [Fetcher.File] wraps.
var (
	ErrDigest = errors.New("fetch: not the published file") // its size or digest differs
	ErrStatus = errors.New("fetch: the server refused")     // a status that a retry does not change
	ErrOnline = errors.New("fetch: the server cannot be reached")
)

// partOf and validatorOf name the two files beside path during its download: the bytes so far, and the
// validator that identifies the version of the file. Readers of folders ignore these hidden files.
func partOf(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".part")
}
func validatorOf(path string) string { return partOf(path) + ".etag" }

// Want describes a file to download.
type Want struct {
	Bytes  int64  // 0 if unknown
	SHA256 string // hexadecimal; empty if unknown
}

// String describes the file, for errors.
func (w Want) String() string {
	switch {
	case w.Bytes == 0:
		return "sha256 " + w.SHA256
	case w.SHA256 == "":
		return fmt.Sprintf("%d bytes", w.Bytes)
	}
	return fmt.Sprintf("%d bytes with sha256 %s", w.Bytes, w.SHA256)
}

// Got describes a downloaded file.
type Got struct {
	Bytes   int64
	SHA256  string
	Resumed int64 // bytes that an earlier download had left
}

// A Fetcher downloads files. Its zero value works.
type Fetcher struct {
	Client   *http.Client                               // nil: [NewClient]
	Attempts int                                        // number of attempts; 0: 5; a resumed download counts as one
	Stall    time.Duration                              // maximum time without a byte; 0: one minute
	Sleep    func(context.Context, time.Duration) error // between attempts; nil waits in real time
	Progress func(done, total int64)                    // progress; total is 0 if unknown
	Warn     func(format string, args ...any)           // reports why an attempt failed; may be nil
}

// NewClient returns a client that follows redirects, except from https to http.
func NewClient() *http.Client {
	return &http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) >= 10 {
			return errors.New("10 redirects, want fewer")
		}
		if first := via[0]; first.URL.Scheme == "https" && r.URL.Scheme != "https" {
			return fmt.Errorf("redirect from https to %s", r.URL.Redacted())
		}
		return nil
	}}
}

// File downloads url to path, whose folder must exist. It keeps the bytes so far beside path until the file is
// complete and verified, and then replaces path atomically. After an error or an interruption the next download
// resumes, if the server supports that and the file is the same: by its digest, or by the server's ETag or
// modification time.
func (f *Fetcher) File(ctx context.Context, url, path string, want Want) (*Got, error) {
	attempts := cmp.Or(f.Attempts, 5)
	var err error
	wait := time.Second
	for i := range attempts {
		var got *Got
		if got, err = f.attempt(ctx, url, path, want); err == nil {
			return got, nil
		}
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%s: %w", url, ctx.Err())
		case errors.Is(err, errDisk), errors.Is(err, ErrStatus), unknownHost(err):
			return nil, err
		case errors.Is(err, ErrDigest):
			if got.Resumed == 0 || i+1 == attempts {
				return nil, err
			} // otherwise the resumed part may be of another file: download once more from the beginning
		case i+1 == attempts:
			return nil, err
		}
		f.warn("%v; attempt %d of %d", err, i+2, attempts)
		if err := f.sleep(ctx, wait); err != nil {
			return nil, fmt.Errorf("%s: %w", url, err)
		}
		wait = min(2*wait, 30*time.Second)
	}
	return nil, err
}

// unknownHost reports whether the host name does not resolve, as on a machine without a network. Then a retry
// does not help.
func unknownHost(err error) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	return ok && dns.IsNotFound
}

func (f *Fetcher) warn(format string, args ...any) {
	if f.Warn != nil {
		f.Warn(format, args...)
	}
}

func (f *Fetcher) sleep(ctx context.Context, d time.Duration) error {
	if f.Sleep != nil {
		return f.Sleep(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errDisk is the error of a file that cannot be written.
var errDisk = errors.New("fetch: cannot write")

func onDisk(err error) error { return fmt.Errorf("%w: %w", errDisk, err) }

// attempt downloads the missing bytes. It also returns the result with ErrDigest.
func (f *Fetcher) attempt(ctx context.Context, url, path string, want Want) (*Got, error) {
	if info, err := os.Stat(partOf(path)); err == nil && !info.Mode().IsRegular() {
		return nil, onDisk(fmt.Errorf("%s is no regular file", partOf(path)))
	}
	part, err := os.OpenFile(partOf(path), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, onDisk(err)
	}
	defer func() { _ = part.Close() }() // closed below where the error matters
	h := sha256.New()
	have, err := io.Copy(h, part)
	if err != nil {
		return nil, onDisk(err)
	}
	validator, _ := os.ReadFile(validatorOf(path)) // a missing validator is empty
	if have > 0 && (want.Bytes > 0 && have > want.Bytes || want.SHA256 == "" && len(validator) == 0) {
		if have, err = 0, restart(part, h); err != nil {
			return nil, err
		}
	}
	got := &Got{Resumed: have}
	if have == 0 || want.Bytes != have {
		if err := f.receive(ctx, url, path, part, h, string(validator), want, got); errors.Is(err, ErrDigest) {
			return got, errors.Join(err, os.Remove(part.Name()), remove(validatorOf(path)))
		} else if err != nil {
			return got, err
		}
	}
	if got.Bytes, err = part.Seek(0, io.SeekEnd); err != nil {
		return nil, onDisk(err)
	}
	got.SHA256 = hex.EncodeToString(h.Sum(nil))
	if want.SHA256 != "" && got.SHA256 != want.SHA256 || want.Bytes > 0 && got.Bytes != want.Bytes {
		err := fmt.Errorf("%w: %s has %d bytes with sha256 %s, want %s", ErrDigest, url, got.Bytes, got.SHA256, want)
		return got, errors.Join(err, os.Remove(part.Name()), remove(validatorOf(path)))
	}
	if err := errors.Join(part.Sync(), part.Close()); err != nil {
		return nil, onDisk(err)
	}
	if err := errors.Join(os.Rename(part.Name(), path), remove(validatorOf(path))); err != nil {
		return nil, onDisk(err)
	}
	return got, nil
}

// receive requests the bytes after those of part, and appends them to part and to h.
func (f *Fetcher) receive(ctx context.Context, url, path string, part *os.File, h hash.Hash, validator string, want Want, got *Got) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stall := cmp.Or(f.Stall, time.Minute)
	idle := time.AfterFunc(stall, cancel)
	defer idle.Stop()
	resp, err := f.request(ctx, url, got.Resumed, validator)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOnline, err)
	}
	defer func() { _ = resp.Body.Close() }() // opened only for reading
	switch {
	case resp.StatusCode == http.StatusPartialContent && got.Resumed > 0:
		var from int64
		if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-", &from); err != nil || from != got.Resumed {
			return errors.Join(fmt.Errorf("%s: Content-Range %q, want one from %d", url, resp.Header.Get("Content-Range"), got.Resumed), os.Truncate(part.Name(), 0))
		}
	case resp.StatusCode == http.StatusOK: // the server does not support ranges, or the file has changed
		if got.Resumed > 0 {
			f.warn("%s: the server sends all of it again", url)
		}
		got.Resumed = 0
		if err := restart(part, h); err != nil {
			return err
		}
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && got.Resumed > 0:
		return errors.Join(fmt.Errorf("%s: %s for the bytes from %d: once more from the beginning", url, resp.Status, got.Resumed), os.Truncate(part.Name(), 0))
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout:
		return fmt.Errorf("%s: %s", url, resp.Status)
	default:
		return fmt.Errorf("%w: %s: %s", ErrStatus, url, resp.Status)
	}
	total := int64(0)
	if resp.ContentLength >= 0 {
		total = got.Resumed + resp.ContentLength
	}
	if want.Bytes > 0 {
		if total > 0 && total != want.Bytes {
			return fmt.Errorf("%w: %s has %d bytes, want %d", ErrDigest, url, total, want.Bytes)
		}
		total = want.Bytes
	}
	if err := keepValidator(path, resp.Header); err != nil {
		return err
	}
	return f.copy(ctx, url, part, h, resp.Body, total, want, idle, stall, got.Resumed)
}

// request requests a file, starting at byte from.
func (f *Fetcher) request(ctx context.Context, url string, from int64, validator string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity") // a compressed transfer has other bytes
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		if validator != "" {
			req.Header.Set("If-Range", validator)
		}
	}
	client := f.Client
	if client == nil {
		client = NewClient()
	}
	return client.Do(req)
}

// copy appends body to part and h. It reads at most one byte more than the expected size.
func (f *Fetcher) copy(ctx context.Context, url string, part *os.File, h hash.Hash, body io.Reader, total int64, want Want, idle *time.Timer, stall time.Duration, done int64) error {
	buf := make([]byte, 1<<16)
	for {
		n, err := 0, ctx.Err() // closing reads the buffered rest
		if err == nil {
			n, err = body.Read(buf)
			idle.Reset(stall)
		}
		if n > 0 {
			if want.Bytes > 0 && done+int64(n) > want.Bytes {
				return fmt.Errorf("%w: %s has more than %d bytes", ErrDigest, url, want.Bytes)
			}
			if _, err := part.Write(buf[:n]); err != nil {
				return onDisk(err)
			}
			h.Write(buf[:n])
			done += int64(n)
			if f.Progress != nil {
				f.Progress(done, total)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if total > 0 && done < total {
				return fmt.Errorf("%s: ended after %d of %d bytes", url, done, total)
			}
			return nil
		case err != nil:
			if ctx.Err() != nil && context.Cause(ctx) == context.Canceled {
				err = fmt.Errorf("no byte for %v: %w", stall, err)
			}
			return fmt.Errorf("%s: after %d bytes: %w", url, done, err)
		}
	}
}

// restart truncates a part that does not fit.
func restart(part *os.File, h hash.Hash) error {
	h.Reset()
	if err := part.Truncate(0); err != nil {
		return onDisk(err)
	}
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return onDisk(err)
	}
	return nil
}

// keepValidator stores what identifies the version of the file at its server: a strong ETag, or the
// modification time.
func keepValidator(path string, header http.Header) error {
	v := header.Get("ETag")
	if len(v) < 2 || v[:2] == "W/" {
		v = header.Get("Last-Modified")
	}
	if v == "" {
		return remove(validatorOf(path))
	}
	if err := os.WriteFile(validatorOf(path), []byte(v), 0o644); err != nil {
		return onDisk(err)
	}
	return nil
}

// remove removes a file if it exists.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Folder makes the folder of path.
func Folder(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return onDisk(err)
	}
	return nil
}
