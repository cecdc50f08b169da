package study

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// grace is the time after which another process may take a lock if the journal has not changed. It is Optuna's.
const grace = 30 * time.Second

// lock locks a journal as Optuna's JournalFileSymlinkLock does: by a symbolic link to the journal. Creating a
// link is atomic, also on NFS. On Windows, where links need a privilege, the lock is a file, as in
// JournalFileOpenLock. The returned function unlocks the journal.
func lock(path string) (unlock func() error, err error) {
	link := path + ".lock"
	release := func() error {
		// Renaming is atomic: if two processes remove a stale lock, one of them fails.
		aside := link + rand.Text() + ".rename"
		if err := os.Rename(link, aside); err != nil {
			return fmt.Errorf("study: unlock %s: %w", path, err)
		}
		return os.Remove(aside)
	}
	var changed time.Time
	since, wait := time.Now(), time.Millisecond
	for {
		err := create(link, filepath.Base(path))
		if err == nil {
			return release, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if info, err := os.Stat(path); err == nil && info.ModTime() != changed {
			changed, since = info.ModTime(), time.Now()
		}
		if time.Since(since) > grace {
			since = time.Now()
			if err := release(); err == nil {
				continue
			}
		}
		time.Sleep(wait)
		wait = min(2*wait, time.Second/4)
	}
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
