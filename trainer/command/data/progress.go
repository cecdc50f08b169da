package data

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// progress shows a file's progress: on a terminal in one line that it redraws, elsewhere in a line every ten
// seconds.
type progress struct {
	out      io.Writer
	terminal bool
	shown    time.Time
	drawn    bool
}

func newProgress(cmd *cobra.Command) *progress {
	return &progress{out: cmd.ErrOrStderr(), terminal: tracking.IsTerminal(cmd.ErrOrStderr()), shown: time.Now()}
}

const (
	redraw = 100 * time.Millisecond // as fast as a reader can follow
	plain  = 10 * time.Second
)

// file returns the function that shows the progress of a file.
func (p *progress) file(name string) func(done, total int64) {
	return func(done, total int64) {
		every := plain
		if p.terminal {
			every = redraw
		}
		if now := time.Now(); now.Sub(p.shown) < every {
			return
		} else {
			p.shown = now
		}
		text := megabytes(done)
		if total > 0 {
			text = fmt.Sprintf("%s of %s, %d %%", text, megabytes(total), 100*done/total)
		}
		if p.terminal {
			fmt.Fprintf(p.out, "\r\x1b[K%s: %s", name, text)
			p.drawn = true
			return
		}
		fmt.Fprintf(p.out, "%s: %s\n", name, text)
	}
}

// end clears the line.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

// warn prints a line.
func (p *progress) warn(format string, args ...any) {
	p.end()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// megabytes formats a number of bytes in megabytes of 10^6.
func megabytes(n int64) string {
	if n < 1e5 {
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
