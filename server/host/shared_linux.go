package host

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// newShared returns mapped memory of a size that nobody can change any more, and its descriptor.
func newShared(size int) (*os.File, []byte, error) {
	fd, err := unix.MemfdCreate("kubernasium", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("kubernasium", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, nil, err
	}
	file := os.NewFile(uintptr(fd), "memfd:kubernasium")
	if err := file.Truncate(int64(size)); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	// A file that shrank under a mapping would kill the server with SIGBUS.
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, memory, nil
}

func unmapShared(memory []byte) error { return unix.Munmap(memory) }

// sendFile writes data, or a part of it, and sends a descriptor with its first byte.
func sendFile(conn net.Conn, data []byte, file *os.File) (int, error) {
	peer, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	n, _, err := peer.WriteMsgUnix(data, unix.UnixRights(int(file.Fd())), nil)
	return n, err
}

// yield lets another thread that waits for this core have it.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) } // it cannot fail
