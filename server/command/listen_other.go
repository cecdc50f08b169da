//go:build !unix

package command

import (
	"math"
	"net"
)

// listenUnix listens on a socket at path.
func listenUnix(path string) (net.Listener, error) { return net.Listen("unix", path) }

// openFiles returns how many files the process may have open.
func openFiles() int { return math.MaxInt32 }
