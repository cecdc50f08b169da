package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const dockerfile = `# A comment.
FROM scratch
COPY --chown=65532:65532 logs /logs
COPY pretrained /models/pretrained
COPY program /program
USER 65532:65532
ENTRYPOINT ["/program"]
`

// context returns a folder with a Dockerfile and what it copies; the program has the given content.
func context(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"Dockerfile": dockerfile, "pretrained/a.yml": "a: 1\n", "program": program, "ignored": "not copied"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(filepath.Join(dir, "program"), 0o700), os.Mkdir(filepath.Join(dir, "logs"), 0o700)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// unpack returns the layout in an archive.
func unpack(t *testing.T, data []byte) layout.Path {
	t.Helper()
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(name, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestArchive: the library that registries' clients use accepts the archive; each platform has its files, with the
// owners and modes that containers need; equal files give equal bytes, though their folders and times differ.
func TestArchive(t *testing.T) {
	const date = "2030-01-02T03:04:05Z"
	write := func() []byte {
		out := filepath.Join(t.TempDir(), "image.tar")
		args := []string{"linux/amd64=" + context(t, "of amd64"), "linux/arm64=" + context(t, "of arm64")}
		if err := run(out, date, map[string]string{"k": "v"}, args); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	data := write()
	if !bytes.Equal(data, write()) {
		t.Error("two archives of equal files differ")
	}
	root, err := unpack(t, data).ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := root.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the layout has %d entries, %v; want one index", len(manifest.Manifests), err)
	}
	index, err := root.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err = index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Fatalf("the index has %d images, %v; want 2", len(manifest.Manifests), err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		d := manifest.Manifests[i]
		if d.Platform == nil || d.Platform.String() != "linux/"+arch {
			t.Errorf("image %d is of %v, want linux/%s", i, d.Platform, arch)
		}
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, img, arch)
	}
}

// checkImage compares configuration and files of an image with the Dockerfile.
func checkImage(t *testing.T, img v1.Image, arch string) {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if config.Architecture != arch || config.OS != "linux" || c.User != "65532:65532" || len(c.Entrypoint) != 1 || c.Entrypoint[0] != "/program" || c.Labels["k"] != "v" {
		t.Errorf("configuration %+v of %s/%s", c, config.OS, config.Architecture)
	}
	if got := config.Created.UTC().Format("2006-01-02"); got != "2030-01-02" {
		t.Errorf("created %s, want the date of the commit", got)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*tar.Header{}
	contents := map[string]string{}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for tr := tar.NewReader(r); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(tr)
			if err != nil {
				t.Fatal(err)
			}
			files[h.Name], contents[h.Name] = h, string(data)
		}
		r.Close()
	}
	for name, want := range map[string]struct {
		mode    fs.FileMode
		uid     int
		content string
	}{
		"logs/":                   {0o755, 65532, ""},
		"models/":                 {0o755, 0, ""},
		"models/pretrained/":      {0o755, 0, ""},
		"models/pretrained/a.yml": {0o644, 0, "a: 1\n"},
		"program":                 {0o755, 0, "of " + arch},
	} {
		h := files[name]
		if h == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		if fs.FileMode(h.Mode) != want.mode || h.Uid != want.uid || contents[name] != want.content {
			t.Errorf("%s has mode %o, user %d and content %q, want %o, %d and %q", name, h.Mode, h.Uid, contents[name], want.mode, want.uid, want.content)
		}
		delete(files, name)
	}
	for name := range files {
		t.Errorf("the image has %s, which nothing copies", name)
	}
}

// TestParseErrors: an instruction that cannot be carried out is an error.
func TestParseErrors(t *testing.T) {
	for _, tc := range []struct{ change, want string }{
		{"FROM scratch=>FROM debian", "want FROM scratch"},
		{"COPY program=>RUN program", "Dockerfile:5: instruction RUN is not supported"},
		{"COPY program=>COPY --chmod=1 program", "flag --chmod=1"},
		{"COPY program=>COPY ../program", "want a name in the folder"},
		{"COPY program /program=>COPY program program", "an absolute path"},
		{"USER 65532:65532=>#", "want COPY, USER and ENTRYPOINT"},
		{`ENTRYPOINT ["/program"]=>ENTRYPOINT /program`, "Dockerfile:7"},
	} {
		from, to, _ := strings.Cut(tc.change, "=>")
		if _, err := parse(strings.Replace(dockerfile, from, to, 1)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.change, err, tc.want)
		}
	}
}

// TestMissingFile: a context without a file that is copied is an error.
func TestMissingFile(t *testing.T) {
	dir := context(t, "p")
	if err := os.Remove(filepath.Join(dir, "program")); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "image.tar")
	if err := run(out, "2030-01-02T03:04:05Z", nil, []string{"linux/amd64=" + dir}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("run = %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an archive was left: %v", err)
	}
}
