package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// content is what the servers of the tests have, 200 kB, and its digest.
var (
	content = bytes.Repeat([]byte("0123456789abcdef"), 12500)
	sum     = digest(content)
)

func digest(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// server serves content, or what its fields say.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // the Range of each
	statuses []int    // of the replies to come, before content
	cuts     []int    // bytes after which the replies to come end
	body     []byte
	etag     string
	noRange  bool
}

func newServer(t *testing.T) *server {
	s := &server{body: content, etag: `"one"`}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Header.Get("Range"))
	if len(s.statuses) > 0 {
		status := s.statuses[0]
		s.statuses = s.statuses[1:]
		w.WriteHeader(status)
		return
	}
	if s.etag != "" {
		w.Header().Set("ETag", s.etag)
	}
	if len(s.cuts) > 0 {
		cut := s.cuts[0]
		s.cuts = s.cuts[1:]
		w.Header().Set("Content-Length", strconv.Itoa(len(s.body)))
		_, _ = w.Write(s.body[:cut])
		panic(http.ErrAbortHandler) // the connection ends
	}
	if s.noRange {
		_, _ = w.Write(s.body)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.body))
}

// fetcher does not wait.
func fetcher() *Fetcher {
	return &Fetcher{Attempts: 3, Sleep: func(context.Context, time.Duration) error { return nil }}
}

// fetched checks that the file at path is content and that nothing is left beside it.
func fetched(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v; want the %d of the server", len(got), err, len(want))
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v; want the file alone", entries, err)
	}
}

func TestFile(t *testing.T) {
	for _, tc := range []struct {
		name     string
		set      func(s *server)
		want     Want
		requests []string
	}{
		{"at once", func(*server) {}, Want{int64(len(content)), sum}, []string{""}},
		{"nothing known", func(*server) {}, Want{}, []string{""}},
		{"interrupted twice", func(s *server) { s.cuts = []int{70000} }, Want{int64(len(content)), sum}, []string{"", "bytes=70000-"}},
		{"interrupted, by ETag", func(s *server) { s.cuts = []int{70000} }, Want{}, []string{"", "bytes=70000-"}},
		{"interrupted, nothing known and no ETag", func(s *server) { s.cuts, s.etag = []int{70000}, "" }, Want{}, []string{"", ""}},
		{"no ranges", func(s *server) { s.cuts, s.noRange = []int{70000}, true }, Want{int64(len(content)), sum}, []string{"", "bytes=70000-"}},
		{"busy server", func(s *server) { s.statuses = []int{503, 429} }, Want{int64(len(content)), sum}, []string{"", "", ""}},
		{"unsatisfiable range", func(s *server) { s.cuts, s.statuses = []int{70000}, nil; s.etag = "" }, Want{SHA256: sum}, []string{"", "bytes=70000-"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			tc.set(s)
			path := filepath.Join(t.TempDir(), "f")
			var last [2]int64
			f := fetcher()
			f.Progress = func(done, total int64) { last = [2]int64{done, total} }
			got, err := f.File(t.Context(), s.URL+"/f", path, tc.want)
			if err != nil {
				t.Fatal(err)
			}
			if got.SHA256 != sum || got.Bytes != int64(len(content)) {
				t.Errorf("%+v, want %d bytes with %s", got, len(content), sum)
			}
			if n := int64(len(content)); last != [2]int64{n, n} {
				t.Errorf("progress ends at %v, want %d of as many", last, n)
			}
			fetched(t, path, content)
			if fmt.Sprint(s.requests) != fmt.Sprint(tc.requests) {
				t.Errorf("ranges %q, want %q", s.requests, tc.requests)
			}
		})
	}
}

// TestFileResumesLater: a second call takes what a first has left, and replaces the file only at the end.
func TestFileResumesLater(t *testing.T) {
	s := newServer(t)
	path := envstest.TempFile(t, "f", "old")
	f := fetcher()
	f.Attempts, s.cuts = 1, []int{150000}
	if _, err := f.File(t.Context(), s.URL, path, Want{}); err == nil {
		t.Fatal("no error for a connection that ends early")
	}
	if old, err := os.ReadFile(path); err != nil || string(old) != "old" {
		t.Errorf("the file is %q, %v before the new one is complete", old, err)
	}
	got, err := f.File(t.Context(), s.URL, path, Want{})
	if err != nil || got.Resumed != 150000 {
		t.Errorf("%+v, %v; want 150000 bytes resumed", got, err)
	}
	fetched(t, path, content)
}

// TestFileChanged: the file has changed between two attempts. By its ETag the server says so; without one the digest does.
func TestFileChanged(t *testing.T) {
	other := bytes.Repeat([]byte("x"), len(content))
	for _, etag := range []string{`"one"`, ""} {
		s := newServer(t)
		path := filepath.Join(t.TempDir(), "f")
		f := fetcher()
		f.Attempts, s.cuts, s.etag = 1, []int{150000}, etag
		if _, err := f.File(t.Context(), s.URL, path, Want{SHA256: digest(other)}); err == nil {
			t.Fatal("no error for a connection that ends early")
		}
		s.body = other
		if etag != "" {
			s.etag = `"two"`
		}
		f.Attempts = 2
		if _, err := f.File(t.Context(), s.URL, path, Want{SHA256: digest(other)}); err != nil {
			t.Errorf("ETag %q: %v", etag, err)
		}
		fetched(t, path, other)
	}
}

func TestFileErrors(t *testing.T) {
	n := int64(len(content))
	for _, tc := range []struct {
		name     string
		set      func(s *server)
		want     Want
		err      error
		text     string
		requests int
	}{
		{"wrong digest", func(*server) {}, Want{n, digest(nil)}, ErrDigest, "sha256 " + sum, 1},
		{"wrong size", func(*server) {}, Want{n - 1, sum}, ErrDigest, "200000 bytes, want 199999", 1},
		{"longer than said", func(s *server) { s.cuts = []int{200000} }, Want{n - 1, sum}, ErrDigest, "want 199999", 1},
		{"not found", func(s *server) { s.statuses = []int{404} }, Want{}, ErrStatus, "404 Not Found", 1},
		{"forbidden", func(s *server) { s.statuses = []int{403} }, Want{}, ErrStatus, "403", 1},
		{"always busy", func(s *server) { s.statuses = []int{500, 502, 503} }, Want{}, nil, "503", 3},
		{"always cut", func(s *server) { s.cuts, s.etag = []int{100000, 90000, 80000}, "" }, Want{}, nil, "after 80000 bytes", 3},
		{"gone", func(s *server) { s.Close() }, Want{}, ErrOnline, "refused", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			tc.set(s)
			path := filepath.Join(t.TempDir(), "f")
			_, err := fetcher().File(t.Context(), s.URL, path, tc.want)
			if err == nil || tc.err != nil && !errors.Is(err, tc.err) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error %v, want %v with %q", err, tc.err, tc.text)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("there is a file: %v", err)
			}
			if len(s.requests) != tc.requests {
				t.Errorf("%d requests, want %d", len(s.requests), tc.requests)
			}
		})
	}
}

// TestFileUnwritable: a folder that cannot be written to, or is none, is an error at once.
func TestFileUnwritable(t *testing.T) {
	s := newServer(t)
	file := envstest.TempFile(t, "file", "")
	device := filepath.Join(t.TempDir(), "f")
	if err := os.Symlink(os.DevNull, partOf(device)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "no", "f"), filepath.Join(file, "f"), device} {
		if _, err := fetcher().File(t.Context(), s.URL, path, Want{}); !errors.Is(err, errDisk) {
			t.Errorf("%s: %v, want %v", path, err, errDisk)
		}
	}
	if err := Folder(filepath.Join(file, "sub", "f")); !errors.Is(err, errDisk) {
		t.Errorf("a folder below a file: %v, want %v", err, errDisk)
	}
	if len(s.requests) != 0 {
		t.Errorf("%d requests for files that cannot be written", len(s.requests))
	}
}

func TestFileRedirects(t *testing.T) {
	s := newServer(t)
	to := s.URL
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to, http.StatusFound)
	}))
	t.Cleanup(r.Close)
	path := filepath.Join(t.TempDir(), "f")
	if _, err := fetcher().File(t.Context(), r.URL, path, Want{SHA256: sum}); err != nil {
		t.Fatal(err)
	}
	fetched(t, path, content)

	to = r.URL // for ever
	if _, err := fetcher().File(t.Context(), r.URL, path, Want{}); err == nil || !strings.Contains(err.Error(), "10 redirects") {
		t.Errorf("redirects for ever: %v", err)
	}

	secure := httptest.NewTLSServer(http.RedirectHandler(s.URL, http.StatusFound))
	t.Cleanup(secure.Close)
	f := fetcher()
	f.Client = secure.Client()
	f.Client.CheckRedirect = NewClient().CheckRedirect
	if _, err := f.File(t.Context(), secure.URL, path, Want{}); err == nil || !strings.Contains(err.Error(), "redirect from https to http://") {
		t.Errorf("a redirect from https to http: %v", err)
	}
}

// TestFileStalls: a server that sends nothing more is given up.
func TestFileStalls(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("a"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	f := fetcher()
	f.Attempts, f.Stall = 1, 50*time.Millisecond
	if _, err := f.File(t.Context(), s.URL, filepath.Join(t.TempDir(), "f"), Want{}); err == nil || !strings.Contains(err.Error(), "no byte for 50ms") {
		t.Errorf("%v, want one about a server that sends nothing", err)
	}
}

// TestFileInterrupted: the end of the context ends a download, and the next resumes.
func TestFileInterrupted(t *testing.T) {
	s := newServer(t)
	path := filepath.Join(t.TempDir(), "f")
	ctx, cancel := context.WithCancel(t.Context())
	f := fetcher()
	f.Progress = func(int64, int64) { cancel() }
	if _, err := f.File(ctx, s.URL, path, Want{SHA256: sum}); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want %v", err, context.Canceled)
	}
	f.Progress = nil
	got, err := f.File(t.Context(), s.URL, path, Want{SHA256: sum})
	if err != nil || got.Resumed == 0 {
		t.Errorf("%+v, %v; want some bytes resumed", got, err)
	}
	fetched(t, path, content)
}
