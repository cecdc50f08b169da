package models

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// WriteFileAtomic replaces the contents of the file at path by the output of write, or keeps the
// old contents if there is an error. After a crash the file is whole, old or new. It gets the
// permissions 0644. Its folder must exist. A symbolic link stays a link. WriteFileAtomic rejects
// devices and pipes, such as /dev/stdout, which cannot be replaced.
func WriteFileAtomic(path string, write func(io.Writer) error) error {
	path = followed(path)
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("write %s: it is no regular file", path)
	}
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	if err := writeSync(tmp, write); err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return SyncDir(dir)
}

// followed returns the path without symbolic links at its end. The file need not exist.
func followed(path string) string {
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		return target
	}
	target, linkErr := os.Readlink(path)
	if !errors.Is(err, fs.ErrNotExist) || linkErr != nil {
		return path
	}
	if !filepath.IsAbs(target) {
		target = followed(filepath.Dir(path)) + string(filepath.Separator) + target
	}
	return followed(target) // a link to a link ends, since the error would be another in a circle
}

// MkdirAll is os.MkdirAll for folders that survive a power loss: it syncs each new name to disk.
func MkdirAll(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(parent)
}

// SweepTemporary removes the temporary files of WriteFileAtomic from a folder, which remain when a process is killed.
// No other process may write there meanwhile.
func SweepTemporary(dir string) error {
	entries, err := os.ReadDir(dir) // not Glob, for which the folder's name may be a pattern
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".tmp") {
			err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
		}
	}
	return err
}

// writeSync writes the file, syncs it to disk and closes it.
func writeSync(f *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriter(f)
	err := f.Chmod(0o644) // CreateTemp's 0600 would hide a model from other users
	if err == nil {
		err = write(w)
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// SyncDir syncs a folder to disk, and so the creation, renaming and removal of its files. On Windows it does nothing: a
// power loss may lose a name, but no name refers to an incomplete file.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
