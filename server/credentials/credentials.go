// Package credentials reads the credentials of a server from files: bearer tokens with quotas, and certificates. It
// rereads changed files, so a token can be revoked and a certificate renewed while the server runs.
package credentials

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// checkEvery is the least time between two checks of a file.
const checkEvery = time.Second

// maxFile bounds a file in bytes.
const maxFile = 1 << 20

// A watched value is read from files, and reread when they have changed.
type watched[T any] struct {
	paths []string
	parse func(texts [][]byte) (T, error)
	every time.Duration
	log   *slog.Logger

	mu    sync.Mutex
	next  time.Time // time of the next check
	texts [][]byte
	value T
	fault string // error of the last check; "" if none
}

// watch reads the files of paths for the first time.
func watch[T any](log *slog.Logger, parse func([][]byte) (T, error), paths ...string) (*watched[T], error) {
	w := &watched[T]{paths: paths, parse: parse, every: checkEvery, log: log, next: time.Now().Add(checkEvery)}
	var err error
	if w.texts, err = readAll(paths); err == nil {
		w.value, err = parse(w.texts)
	}
	return w, err
}

// get returns the value of the files, or the last valid one if they are invalid now.
func (w *watched[T]) get() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Before(w.next) {
		return w.value
	} else {
		w.next = now.Add(w.every)
	}
	if slices.ContainsFunc(w.paths, isPipe) {
		return w.value
	}
	texts, err := readAll(w.paths)
	if err == nil && slices.EqualFunc(texts, w.texts, slices.Equal[[]byte]) {
		w.fault = ""
		return w.value
	}
	var value T
	if err == nil {
		value, err = w.parse(texts)
	}
	if err != nil {
		if w.fault != err.Error() { // logged once
			w.fault = err.Error()
			w.log.Error("read anew; what was read before stays good", "files", w.paths, "err", err)
		}
		return w.value
	}
	w.texts, w.value, w.fault = texts, value, ""
	w.log.Info("read anew", "files", w.paths)
	return value
}

// isPipe reports whether path can be read only once, such as a shell's <(command). Opening it again would wait for a
// writer.
func isPipe(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular()
}

func readAll(paths []string) ([][]byte, error) {
	texts := make([][]byte, len(paths))
	for i, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		texts[i], err = io.ReadAll(io.LimitReader(f, maxFile+1))
		_ = f.Close() // opened for reading only
		if err != nil {
			return nil, err
		}
		if len(texts[i]) > maxFile {
			return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
		}
	}
	return texts, nil
}
