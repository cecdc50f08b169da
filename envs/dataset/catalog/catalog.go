// Package catalog lists the public data sets that environments read: source, licence, citation, and the size
// and digest of each file. It verifies folders against that list. It downloads nothing.
package catalog

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// A Dataset is a public data set.
type Dataset struct {
	Name     string `yaml:"name" json:"name"`
	Title    string `yaml:"title" json:"title"`
	Source   string `yaml:"source" json:"source"`     // page that describes it
	Revision string `yaml:"revision" json:"revision"` // commit or release
	Base     string `yaml:"base" json:"base"`         // prefix of the addresses of its files
	Licence  string `yaml:"licence" json:"licence"`   // SPDX identifier, or [NoLicence]
	Terms    string `yaml:"terms" json:"terms"`       // what the licence covers, or what the owner asks for
	Citation string `yaml:"citation" json:"citation"`
	Reads    string `yaml:"reads" json:"reads"`                         // commands and options that read it
	Verified string `yaml:"verified" json:"verified,omitempty"`         // how files without a digest are verified
	Convert  string `yaml:"convert,omitempty" json:"convert,omitempty"` // conversion of files into outputs; empty if environments read the files
	Files    []File `yaml:"files" json:"files"`                         // as published
	Parts    *Parts `yaml:"parts,omitempty" json:"parts,omitempty"`     // further files of one pattern
	Outputs  []File `yaml:"outputs,omitempty" json:"outputs,omitempty"` // of the conversion
}

// NoLicence is the licence of a data set whose owner states none, which grants nothing.
const NoLicence = "none stated"

// A File is a file of a data set.
type File struct {
	Path   string `yaml:"path" json:"path"`                       // within the data folder, with slashes
	From   string `yaml:"from,omitempty" json:"from,omitempty"`   // after the base; empty is the last element of Path
	Bytes  int64  `yaml:"bytes,omitempty" json:"bytes,omitempty"` // 0 if unknown
	SHA256 string `yaml:"sha256,omitempty" json:"sha256,omitempty"`
}

// Pinned reports whether the digest of the file is known.
func (f *File) Pinned() bool { return f.SHA256 != "" }

// Parts are the files of a large data set that have a number in their name.
type Parts struct {
	Path  string `yaml:"path" json:"path"` // with a verb of package fmt for the number
	From  string `yaml:"from" json:"from"` // likewise
	First int    `yaml:"first" json:"first"`
	Last  int    `yaml:"last" json:"last"`
}

// Part returns the file with the number.
func (p *Parts) Part(n int) (File, error) {
	if n < p.First || n > p.Last {
		return File{}, fmt.Errorf("catalog: part %d, want %d to %d", n, p.First, p.Last)
	}
	return File{Path: fmt.Sprintf(p.Path, n), From: fmt.Sprintf(p.From, n)}, nil
}

// URL returns the address of a file of the data set. A mirror serves data folders: its address is that of
// the folder; empty takes the source.
func (d *Dataset) URL(f *File, mirror string) string {
	base, rest := d.Base, cmp.Or(f.From, path.Base(f.Path))
	if mirror != "" {
		base, rest = strings.TrimSuffix(mirror, "/")+"/", f.Path
	}
	return base + (&url.URL{Path: rest}).EscapedPath()
}

// Bytes returns the size of the published files, and how many of them have no known size.
func (d *Dataset) Bytes() (known int64, unknown int) {
	for _, f := range d.Files {
		known += f.Bytes
		if f.Bytes == 0 {
			unknown++
		}
	}
	return known, unknown
}

//go:embed manifest.yaml
var manifest []byte

var all = sync.OnceValues(func() ([]Dataset, error) { return Read(bytes.NewReader(manifest)) })

// All returns the data sets in the order of the manifest. Callers must not change them.
func All() []Dataset {
	sets, err := all()
	if err != nil {
		panic(err) // the manifest is part of the program, and a test reads it
	}
	return sets
}

// ErrUnknown is the error of a name that no data set has; [Lookup] returns it.
var ErrUnknown = errors.New("catalog: no data set of this name")

// Lookup returns the data set of the name.
func Lookup(name string) (*Dataset, error) {
	sets := All()
	i := slices.IndexFunc(sets, func(d Dataset) bool { return d.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: %q, want one of %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	return &sets[i], nil
}

// Names returns the names of the data sets.
func Names() []string {
	var names []string
	for _, d := range All() {
		names = append(names, d.Name)
	}
	return names
}

// Read reads and checks a manifest.
func Read(r io.Reader) ([]Dataset, error) {
	var sets []Dataset
	dec := yaml.NewDecoder(r)
	dec.KnownFields(true)
	if err := dec.Decode(&sets); err != nil {
		return nil, fmt.Errorf("catalog: manifest: %w", err)
	}
	names, pinned := map[string]bool{}, map[string]string{}
	for i := range sets {
		d := &sets[i]
		if err := d.check(pinned); err != nil {
			return nil, fmt.Errorf("catalog: data set %q: %w", d.Name, err)
		}
		if names[d.Name] {
			return nil, fmt.Errorf("catalog: data set %q is there twice", d.Name)
		}
		names[d.Name] = true
	}
	return sets, nil
}

// check returns an error if the entry is incomplete or invalid. pinned has the digests of earlier data sets by path:
// two sets may share a file.
func (d *Dataset) check(pinned map[string]string) error {
	for _, field := range []struct{ name, value string }{
		{"name", d.Name}, {"title", d.Title}, {"source", d.Source}, {"revision", d.Revision}, {"base", d.Base},
		{"licence", d.Licence}, {"terms", d.Terms}, {"citation", d.Citation}, {"reads", d.Reads},
	} {
		if field.value == "" {
			return fmt.Errorf("no %s", field.name)
		}
	}
	for _, address := range []string{d.Source, d.Base} {
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return fmt.Errorf("address %q, want an http or https URL", address)
		}
	}
	if !strings.HasSuffix(d.Base, "/") {
		return fmt.Errorf("base %q, want a slash at its end", d.Base)
	}
	if (d.Convert == "") != (len(d.Outputs) == 0) {
		return fmt.Errorf("convert %q with %d outputs, want both or none", d.Convert, len(d.Outputs))
	}
	files, unpinned := slices.Clone(d.Files), 0
	if p := d.Parts; p != nil {
		f, err := p.Part(p.First)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return errors.New("no files")
	}
	for _, f := range append(files, d.Outputs...) {
		if err := f.check(); err != nil {
			return err
		}
		if before, ok := pinned[f.Path]; ok && before != f.SHA256 {
			return fmt.Errorf("%s has another digest in another data set", f.Path)
		}
		pinned[f.Path] = f.SHA256
	}
	for _, f := range files {
		if !f.Pinned() {
			unpinned++
		}
	}
	if unpinned > 0 && d.Verified == "" {
		return fmt.Errorf("%d files without sha256, and no word on how they are verified", unpinned)
	}
	return nil
}

// check rejects a path outside the data folder and a malformed digest.
func (f *File) check() error {
	if !path.IsAbs(f.Path) && path.Clean(f.Path) == f.Path && strings.Contains(f.Path, "/") && !strings.HasPrefix(f.Path, "../") &&
		!strings.ContainsAny(f.Path, `\:`) {
		if f.SHA256 == "" && f.Bytes == 0 {
			return nil
		}
		if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != 32 || f.SHA256 != strings.ToLower(f.SHA256) {
			return fmt.Errorf("%s: sha256 %q, want 64 hexadecimal digits in lower case", f.Path, f.SHA256)
		}
		if f.Bytes < 0 {
			return fmt.Errorf("%s: %d bytes, want the size of the pinned file, or none where it is unknown", f.Path, f.Bytes)
		}
		return nil
	}
	return fmt.Errorf("path %q, want one below a folder of the data folder", f.Path)
}
