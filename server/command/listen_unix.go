//go:build unix

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"syscall"
	"time"
)

// listenUnix listens on a socket at path that only this user can open. It replaces a socket left
// behind by an earlier server; a socket in use is an error.
func listenUnix(path string) (net.Listener, error) {
	if info, err := os.Stat(path); err == nil {
		if info.Mode()&fs.ModeSocket == 0 {
			return nil, fmt.Errorf("%s is there and no socket", path)
		}
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			return nil, errors.Join(fmt.Errorf("%s is served by another process", path), c.Close())
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	// With a chmod after Listen, another user could connect in between.
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	return net.Listen("unix", path)
}

// openFiles returns how many files the process may have open. Connections are files.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return int(min(limit.Cur, math.MaxInt32))
}
