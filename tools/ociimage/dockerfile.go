package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// A recipe holds the instructions of a Dockerfile.
type recipe struct {
	copies     []copied
	user       string
	entrypoint []string
}

// copied is an instruction COPY of one file or folder.
type copied struct {
	line     string
	from, to string
	owner    owner
}

// parse reads a Dockerfile. It rejects every instruction that it does not support.
func parse(text string) (recipe, error) {
	var r recipe
	scratch := false
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		var err error
		switch {
		case line == "FROM scratch" && !scratch:
			scratch = true
		case !scratch:
			err = fmt.Errorf("the first instruction is %q, want FROM scratch", line)
		case word == "COPY":
			var c copied
			c, err = parseCopy(line, strings.Fields(rest))
			r.copies = append(r.copies, c)
		case word == "USER":
			r.user = rest
		case word == "ENTRYPOINT":
			err = json.Unmarshal([]byte(rest), &r.entrypoint)
		default:
			err = fmt.Errorf("instruction %s is not supported", word)
		}
		if err != nil {
			return recipe{}, fmt.Errorf("Dockerfile:%d: %w", n+1, err)
		}
	}
	if len(r.copies) == 0 || len(r.entrypoint) == 0 || r.user == "" {
		return recipe{}, fmt.Errorf("Dockerfile: want COPY, USER and ENTRYPOINT")
	}
	return r, nil
}

// parseCopy reads the arguments of COPY [--chown=UID:GID] FROM TO.
func parseCopy(line string, args []string) (copied, error) {
	c := copied{line: line}
	if len(args) > 0 && strings.HasPrefix(args[0], "--") {
		if n, err := fmt.Sscanf(args[0], "--chown=%d:%d", &c.owner.uid, &c.owner.gid); n != 2 || err != nil {
			return c, fmt.Errorf("flag %s of COPY, want --chown=UID:GID", args[0])
		}
		args = args[1:]
	}
	if len(args) != 2 || !path.IsAbs(args[1]) || args[0] != path.Clean(args[0]) || path.IsAbs(args[0]) || strings.HasPrefix(args[0], "..") {
		return c, fmt.Errorf("COPY %s, want a name in the folder and an absolute path", strings.Join(args, " "))
	}
	c.from, c.to = args[0], strings.TrimPrefix(path.Clean(args[1]), "/")
	return c, nil
}

// layerOf returns the layer of a COPY: the folders above the path, and the files.
func layerOf(folder string, c copied, at time.Time) (v1.Layer, error) {
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for i, ch := range c.to {
		if ch == '/' {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: c.to[:i] + "/", Mode: 0o755, ModTime: at, Format: tar.FormatPAX}); err != nil {
				return nil, err
			}
		}
	}
	if err := addTree(w, os.DirFS(folder), c.from, c.to, c.owner, at); err != nil {
		return nil, fmt.Errorf("%s: %w", c.line, err)
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data.Bytes())), nil },
		tarball.WithMediaType("application/vnd.oci.image.layer.v1.tar+gzip"))
}
