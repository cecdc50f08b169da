package study

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// grace is the time after which another process may take a lock if the journal has not changed. It is Optuna's.
const grace = 30 * time.Second

// lock locks a journal as Optuna's JournalFileSymlinkLock does: by a symbolic link to the journal. Creating a
// link is atomic, also on NFS. On Windows, where links need a privilege, the lock is a file, as in
// JournalFileOpenLock. The returned function unlocks the journal.
func lock(path string) (unlock func() error, err error) {
	link := path + ".lock"
	var changed time.Time
	var held fs.FileInfo // the lock that is waited for
	since, wait := time.Now(), time.Millisecond
	for {
		err := create(link, filepath.Base(path))
		if err == nil {
			return func() error {
				if err := remove(link, nil); err != nil {
					return fmt.Errorf("study: unlock %s: %w", path, err)
				}
				return nil
			}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if info, err := os.Stat(path); err == nil && info.ModTime() != changed {
			changed, since = info.ModTime(), time.Now()
		}
		if info, err := os.Lstat(link); err == nil && !sameLock(info, held) { // another process has locked the journal meanwhile
			held, since = info, time.Now()
		}
		if time.Since(since) > grace {
			since = time.Now()
			if err := remove(link, held); err == nil {
				continue
			}
		}
		time.Sleep(wait)
		wait = min(2*wait, time.Second/4)
	}
}

// errOtherLock is returned by remove if another lock has taken the place of the expected one.
var errOtherLock = errors.New("study: another process holds the lock")

// remove removes a lock: the expected one, or with nil any. If it is another one, which a process has made after it
// removed the expected one, remove puts a lock back in its place.
func remove(link string, expected fs.FileInfo) error {
	if info, err := os.Lstat(link); err != nil {
		return err
	} else if expected != nil && !sameLock(info, expected) {
		return errOtherLock
	}
	// Renaming is atomic: if two processes remove a stale lock, one of them fails.
	aside := link + rand.Text() + ".rename"
	if err := os.Rename(link, aside); err != nil {
		return err
	}
	if info, err := os.Lstat(aside); expected != nil && err == nil && !sameLock(info, expected) {
		_ = create(link, strings.TrimSuffix(filepath.Base(link), ".lock")) // fails if a third process was faster
		return errors.Join(errOtherLock, os.Remove(aside))
	}
	return os.Remove(aside)
}

// sameLock reports whether two states are of one lock. A new lock may have the inode of an old one.
func sameLock(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}

// create fails with fs.ErrExist if the link exists.
func create(link, target string) error {
	if runtime.GOOS != "windows" {
		return os.Symlink(target, link)
	}
	f, err := os.OpenFile(link, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}
