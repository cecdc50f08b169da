package study

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// grace is the time after which a lock is taken from its holder, if the journal did not change: Optuna's.
const grace = 30 * time.Second

// lock locks a journal as Optuna's JournalFileSymlinkLock does: by a symbolic link to it, whose creation is
// atomic on NFS, too. The returned function unlocks it.
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
		err := os.Symlink(filepath.Base(path), link)
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
