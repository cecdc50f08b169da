package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	prefix   = "kubernasium-controlplane-" // prefix of temporary folders
	lockFile = "lock"
	shm      = "/dev/shm"
	young    = time.Minute // a younger folder may belong to a control plane that is about to lock it
)

// A folder holds the state of one control plane. The process holds its locks while it uses the folder.
type folder struct {
	path  string // keys, database, configuration: temp, or the folder that the user named
	temp  string // etcd's sockets, whose paths may have at most 107 bytes
	locks []*os.File
}

// openFolder creates and locks a temporary folder, in memory if the system has /dev/shm. If path is not empty,
// data goes to path instead and is kept.
func openFolder(path string) (f *folder, err error) {
	base := os.TempDir()
	if inMemory(shm) {
		base = shm
	}
	sweep(base)
	f = &folder{}
	if f.temp, err = os.MkdirTemp(base, prefix); err != nil {
		return nil, err
	}
	if f.path = f.temp; path != "" {
		f.path, err = filepath.Abs(path)
		err = errors.Join(err, os.MkdirAll(f.path, 0o700))
	}
	if err == nil {
		err = f.lock(f.temp)
	}
	if err == nil && f.path != f.temp {
		err = f.lock(f.path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("data folder: %w", err), f.close())
	}
	return f, nil
}

func (f *folder) lock(dir string) error {
	l, err := lock(filepath.Join(dir, lockFile))
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	f.locks = append(f.locks, l)
	return nil
}

// close removes temporary data and releases the locks.
func (f *folder) close() error {
	err := os.RemoveAll(f.temp)
	for _, l := range f.locks {
		err = errors.Join(err, l.Close())
	}
	return err
}

// errLocked is returned if another process holds a lock.
var errLocked = errors.New("in use by another control plane")

// lock locks a file; the lock ends with the process.
func lock(file string) (*os.File, error) {
	l, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(l.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = l.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	return l, nil
}

// sweep removes the temporary folders of this user's killed control planes.
func sweep(base string) {
	left, err := filepath.Glob(filepath.Join(base, prefix+"*"))
	if err != nil {
		return
	}
	for _, path := range left {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < young {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Getuid() {
			continue
		}
		l, err := lock(filepath.Join(path, lockFile))
		if err != nil {
			continue
		}
		_ = os.RemoveAll(path) // a leftover costs only memory
		_ = l.Close()
	}
}

// inMemory reports whether path is a folder in memory that this user may write to.
func inMemory(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Type == unix.TMPFS_MAGIC && unix.Access(path, unix.W_OK|unix.X_OK) == nil
}
