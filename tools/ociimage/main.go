// Command ociimage writes an image for several platforms as an OCI archive, without a container engine.
//
// Usage: go -C tools/ociimage run . -o FILE.tar -date 2030-01-02T03:04:05Z [-label key=value]
// linux/amd64=FOLDER …
//
// Each folder is the context of a Dockerfile of this repository: FROM scratch, then COPY, USER and ENTRYPOINT.
// All times in the image are the date, and owners are those of the Dockerfile, so that equal files give equal
// bytes.
package main

import (
	"archive/tar"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	out := flag.String("o", "", "archive to write")
	date := flag.String("date", "", "time of all files, by RFC 3339: that of the commit")
	labels := map[string]string{}
	flag.Func("label", "label of the image as key=value", func(s string) error {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("want key=value")
		}
		labels[key] = value
		return nil
	})
	flag.Parse()
	if err := run(*out, *date, labels, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "ociimage:", err)
		os.Exit(1)
	}
}

// run writes the archive with the images of the folders. args name them as PLATFORM=FOLDER.
func run(out, date string, labels map[string]string, args []string) error {
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return fmt.Errorf("-date: %w", err)
	}
	if out == "" || len(args) == 0 {
		return errors.New("want -o FILE and PLATFORM=FOLDER")
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arg := range args {
		name, folder, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q is not of the form PLATFORM=FOLDER", arg)
		}
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			return err
		}
		img, err := build(folder, *platform, labels, at)
		if err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
	}
	dir, err := os.MkdirTemp(filepath.Dir(out), ".ociimage-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index); err != nil {
		return err
	}
	return pack(dir, out, at)
}

// build returns the image of a folder with a Dockerfile.
func build(folder string, platform v1.Platform, labels map[string]string, at time.Time) (v1.Image, error) {
	text, err := os.ReadFile(filepath.Join(folder, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	r, err := parse(string(text))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, c := range r.copies {
		layer, err := layerOf(folder, c, at)
		if err != nil {
			return nil, err
		}
		addendum := mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: c.line, Created: v1.Time{Time: at}}}
		if img, err = mutate.Append(img, addendum); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Created = v1.Time{Time: at}
	config.Config = v1.Config{User: r.user, Entrypoint: r.entrypoint, Labels: labels}
	return mutate.ConfigFile(img, config)
}

// pack writes the files of a folder to a tar archive, in the order of their names.
func pack(dir, out string, at time.Time) (err error) {
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := tar.NewWriter(file)
	if err := addTree(w, os.DirFS(dir), ".", "", owner{}, at); err != nil {
		return err
	}
	return w.Close()
}

// An owner is a numeric user and group id.
type owner struct{ uid, gid int }

// addTree writes a file, or a folder with its contents, under the name `as`. For "", the root of the archive,
// it writes only the contents.
func addTree(w *tar.Writer, fsys fs.FS, name, as string, o owner, at time.Time) error {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if info.IsDir() || info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	header := tar.Header{Name: as, Mode: mode, Uid: o.uid, Gid: o.gid, ModTime: at, Format: tar.FormatPAX}
	if info.IsDir() {
		header.Typeflag, header.Name = tar.TypeDir, as+"/"
		if as != "" {
			if err := w.WriteHeader(&header); err != nil {
				return err
			}
		}
		entries, err := fs.ReadDir(fsys, name)
		if err != nil {
			return err
		}
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		for _, e := range entries {
			if err := addTree(w, fsys, join(name, e.Name()), join(as, e.Name()), o, at); err != nil {
				return err
			}
		}
		return nil
	}
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := w.WriteHeader(&header); err != nil {
		return err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

func join(folder, name string) string {
	if folder == "" || folder == "." {
		return name
	}
	return folder + "/" + name
}
