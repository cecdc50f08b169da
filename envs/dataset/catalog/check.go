package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kubernasium/kubernasium/envs/dataset"
)

// State says how a file compares with the manifest.
type State string

// States of files.
const (
	OK       State = "ok"       // has the digest of the manifest
	Missing  State = "missing"  // is not there
	Differs  State = "differs"  // is not the published file, or not the fetched one
	Unpinned State = "unpinned" // exists; the manifest has no digest, and none was recorded
	Recorded State = "recorded" // exists as it was fetched; the manifest has no digest
)

// A FileReport is the verdict on a file.
type FileReport struct {
	Path   string `json:"path"`
	State  State  `json:"state"`
	Output bool   `json:"output,omitempty"` // made by a conversion
	Detail string `json:"detail,omitempty"` // what differs
	Bytes  int64  `json:"bytes,omitempty"`  // found
}

// A Report is the verdict on a data set.
type Report struct {
	Name  string       `json:"name"`
	State SetState     `json:"state"`
	Files []FileReport `json:"files"`
}

// SetState says how much of a data set is in a folder.
type SetState string

// States of data sets.
const (
	Complete SetState = "complete" // environments can read all of it
	Partial  SetState = "partial"  // some files are missing
	Absent   SetState = "absent"   // all files are missing
	Wrong    SetState = "wrong"    // a file differs
)

// Check compares the folder dir with the manifest's entry. A set is complete with its files, or with the outputs of its
// conversion. Check returns an error if it cannot read, not for a difference.
func (d *Dataset) Check(ctx context.Context, dir string) (*Report, error) {
	lock, err := ReadLock(dir)
	if err != nil {
		return nil, err
	}
	r := &Report{Name: d.Name}
	files := append([]File(nil), d.Files...)
	parts, err := d.found(dir)
	if err != nil {
		return nil, err
	}
	files = append(files, parts...)
	missing := [2]int{}
	wrong, there := false, 0
	for output, list := range [][]File{files, d.Outputs} {
		for i := range list {
			f, err := list[i].Check(ctx, dir, lock)
			if err != nil {
				return nil, err
			}
			f.Output = output == 1
			switch f.State {
			case Missing:
				missing[output]++
			case Differs:
				wrong = true
				there++
			default:
				there++
			}
			r.Files = append(r.Files, *f)
		}
	}
	haveFiles := missing[0] == 0 && len(files) > 0 && (d.Parts == nil || len(parts) > 0)
	haveOutputs := missing[1] == 0 && len(d.Outputs) > 0
	switch {
	case wrong:
		r.State = Wrong
	case there == 0:
		r.State = Absent
	case haveOutputs, haveFiles && d.Convert == "":
		r.State = Complete
	default:
		r.State = Partial
	}
	return r, nil
}

// found returns the parts of the data set that are in the folder.
func (d *Dataset) found(dir string) ([]File, error) {
	if d.Parts == nil {
		return nil, nil
	}
	var files []File
	first, err := d.Parts.Part(d.Parts.First)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(dir, filepath.Dir(filepath.FromSlash(first.Path))))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for _, e := range entries {
		var n int
		name := filepath.ToSlash(filepath.Join(filepath.Dir(first.Path), e.Name()))
		if _, err := fmt.Sscanf(name, d.Parts.Path, &n); err != nil {
			continue
		}
		if f, err := d.Parts.Part(n); err == nil && f.Path == name {
			files = append(files, f)
		}
	}
	return files, nil
}

// Check compares a file below dir with the manifest or, if that has no digest, with the record of the fetched files.
func (f *File) Check(ctx context.Context, dir string, lock Lock) (*FileReport, error) {
	r := &FileReport{Path: f.Path, State: OK}
	name := filepath.Join(dir, filepath.FromSlash(f.Path))
	sum, n, err := Digest(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		r.State = Missing
		return r, nil
	} else if err != nil {
		return nil, err
	}
	r.Bytes = n
	want := f.SHA256
	if want == "" {
		entry, ok := lock[f.Path]
		if !ok {
			r.State = Unpinned
			return r, nil
		}
		want, r.State = entry.SHA256, Recorded
	}
	if sum != want {
		r.State, r.Detail = Differs, fmt.Sprintf("sha256 %s, want %s", sum, want)
	}
	return r, nil
}

// Digest returns the SHA-256 of a file as hexadecimal digits, and its size. It ends early with ctx's error.
func Digest(ctx context.Context, name string) (sum string, n int64, err error) {
	info, err := os.Stat(name) // before Open, which may block on a pipe
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file (%v)", name, info.Mode().Type())
	}
	if err != nil {
		return "", 0, err
	}
	f, err := os.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = f.Close() }() // only read
	h := sha256.New()
	n, err = io.Copy(h, dataset.UntilDone(ctx, f))
	return hex.EncodeToString(h.Sum(nil)), n, err
}

// LockFile is the file of a data folder that records the fetched files.
const LockFile = ".fetched.json"

// A Lock holds the digests of fetched files by their paths.
type Lock map[string]LockEntry

// LockEntry is a file that was fetched.
type LockEntry struct {
	URL    string `json:"url,omitempty"` // empty if it was put there by hand
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// ReadLock reads the record of the files fetched into a data folder. Without a record the Lock is empty.
func ReadLock(dir string) (Lock, error) {
	name := filepath.Join(dir, LockFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Lock{}, nil
	} else if err != nil {
		return nil, err
	}
	lock := Lock{}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("%s: %w: remove it, and fetch again what it was for", name, err)
	}
	return lock, nil
}
