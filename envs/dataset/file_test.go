//go:build unix

package dataset_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/dataset"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// TestFilesThatAreNone: a device, a pipe, a folder, a row of 300 MB and a file that claims 5 TB are refused at once. The
// error names the file.
func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	fifo, long, quoted, sparse := filepath.Join(dir, "fifo"), filepath.Join(dir, "long"), filepath.Join(dir, "quoted"), filepath.Join(dir, "sparse")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{long: "a\n1\n", quoted: "a\n1\n\"\n\n"} {
		envstest.Write(t, path, text)
		if err := os.Truncate(path, 300<<20); err != nil { // zeros follow
			t.Fatal(err)
		}
	}
	envstest.Write(t, sparse, "")
	if err := os.Truncate(sparse, 5<<40); err != nil {
		t.Log(err) // the file system has no files of this size: it is an empty one then
	}
	for path, want := range map[string]string{
		"/dev/zero": "no regular file", fifo: "no regular file", dir: "no regular file", sparse: "sparse",
		long: "long:2: a row of more than 1048576 bytes", quoted: "quoted:2: a row of more than 1048576 bytes",
	} {
		begin := time.Now()
		_, err := dataset.ReadFile(path, func(name string, r io.Reader) (int, error) {
			table, err := dataset.Open("test: ", name, r)
			if err != nil {
				return 0, err
			}
			for _, err := range table.Rows() {
				if err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		t.Logf("%s: %v", want, time.Since(begin)) // a few milliseconds
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", path, err, want)
		}
	}
}
