//go:build !unix

package main

import "net"

// listenUnix listens on a socket at path.
func listenUnix(path string) (net.Listener, error) { return net.Listen("unix", path) }
