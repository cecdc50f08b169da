package host

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/kubernasium/kubernasium/server/wire"
)

// failing is a listener whose Accept returns errors in turn.
type failing struct {
	net.Listener
	errs  []error
	calls int
}

func (f *failing) Accept() (net.Conn, error) {
	f.calls++
	return nil, f.errs[f.calls-1]
}

// TestAcceptIsTriedAgain: a server that has no descriptor left for a while continues, and one whose
// listener fails for another reason ends.
func TestAcceptIsTriedAgain(t *testing.T) {
	full := &net.OpError{Op: "accept", Net: "unix", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	broken := errors.New("broken")
	for _, tc := range []struct {
		errs []error
		want error
	}{
		{[]error{full, full, full, net.ErrClosed}, nil},
		{[]error{full, broken, net.ErrClosed}, broken},
	} {
		s := New(Config{Limits: wire.DefaultLimits(), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		l := &failing{errs: tc.errs}
		if err := s.ServeUnix(l); !errors.Is(err, tc.want) || err != nil && tc.want == nil {
			t.Errorf("after %d of %v: %v, want %v", l.calls, tc.errs, err, tc.want)
		}
	}
}
