//go:build !linux

package host

import (
	"errors"
	"net"
	"os"
)

func newShared(int) (*os.File, []byte, error) { return nil, nil, errors.ErrUnsupported }

func unmapShared([]byte) error { return errors.ErrUnsupported }

func sendFile(net.Conn, []byte, *os.File) (int, error) { return 0, errors.ErrUnsupported }

func yield() {}
