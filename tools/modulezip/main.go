// Command modulezip writes this module to a folder as a Go proxy serves it, so that `go install` can be tried
// before a version is published.
//
// Usage: go run ./tools/modulezip FOLDER VERSION
//
// It packs the files that git tracks, with their uncommitted changes. GOPROXY=file://FOLDER then serves the
// version.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: modulezip FOLDER VERSION")
		os.Exit(2)
	}
	if err := write(".", os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "modulezip:", err)
		os.Exit(1)
	}
}

// write adds one version of the module at root to the folder proxy. It returns an error if go.mod has a
// directive with which `go install` refuses the module.
func write(root, proxy, version string) error {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	f, err := modfile.Parse("go.mod", mod, nil)
	if err != nil {
		return err
	}
	if len(f.Replace) > 0 || len(f.Exclude) > 0 {
		return errors.New("go.mod has replace or exclude, with which go install refuses a module")
	}
	m := module.Version{Path: f.Module.Mod.Path, Version: version}
	files, err := tracked(root)
	if err != nil {
		return err
	}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	folder := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC()}) // proxies report when a version was published
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			return err
		}
	}
	out, err := os.Create(filepath.Join(folder, version+".zip"))
	if err != nil {
		return err
	}
	return errors.Join(zip.Create(out, m, files), out.Close())
}

// file is a file of the repository for package zip.
type file struct{ root, name string }

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (fs.FileInfo, error)  { return os.Lstat(filepath.Join(f.root, f.name)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.root, f.name)) }

// tracked returns the files at root that git tracks and that exist. Package zip omits those of other modules.
func tracked(root string) ([]zip.File, error) {
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []zip.File
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		f := file{root, name}
		if info, err := f.Lstat(); err == nil && info.Mode().IsRegular() {
			files = append(files, f)
		}
	}
	return files, nil
}
