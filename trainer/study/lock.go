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

// grace is the time after which a lock is taken from its holder, if the journal did not change: Optuna's.
const grace = 30 * time.Second

// lock locks a journal as Optuna's JournalFileSymlinkLock does: by a symbolic link to it, whose creation is
// atomic on NFS, too. On Windows, where links need a privilege, it is a file, as of JournalFileOpenLock. The
// returned function unlocks it.
func lock(path string) (unlock func() error, err error) {
	link := path + ".lock"
	release := func() error {
		// Renaming is atomic: of two processes that take a stale lock away, one fails.
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

// create fails with fs.ErrExist if the link is there.
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
