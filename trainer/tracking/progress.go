package tracking

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

const (
	redrawInterval = 100 * time.Millisecond // as fast as a reader can follow
	plainInterval  = 10 * time.Second
	returnWindow   = 100 // episodes, as Stable-Baselines3's stats_window_size
	barWidth       = 20  // characters; fewer on a narrower terminal
)

// ProgressBarConfig configures a ProgressBar.
type ProgressBarConfig struct {
	Out      io.Writer        // default os.Stderr
	Total    int64            // timesteps of the whole run; 0 if unknown
	Start    int64            // timesteps of earlier processes, in a resumed run; default 0
	Terminal bool             // whether Out accepts control characters; see IsTerminal
	Quiet    bool             // show nothing
	Now      func() time.Time // default time.Now
}

// ProgressBar shows a training's progress: timesteps so far and in total, timesteps per second, the mean return
// of the last 100 episodes, and the remaining time. On a terminal it redraws one line; elsewhere it prints a
// plain line every ten seconds. It is safe for concurrent use.
//
// A ProgressBar is also an io.Writer that prints above the bar, so that a log on the same terminal does not
// break the line. It ignores errors of Out, except in Write.
type ProgressBar struct {
	cfg ProgressBarConfig

	mu      sync.Mutex
	bar     *progressbar.ProgressBar // nil unless on a terminal
	begun   time.Time
	shown   time.Time
	step    int64
	returns [returnWindow]float64 // ring buffer of the last returns
	count   int                   // number of all returns
	closed  bool
}

var _ io.WriteCloser = (*ProgressBar)(nil)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// NewProgressBar starts the clock of a progress bar and, on a terminal, draws it.
func NewProgressBar(cfg ProgressBarConfig) *ProgressBar {
	if cfg.Out == nil {
		cfg.Out = os.Stderr
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	p := &ProgressBar{cfg: cfg, begun: cfg.Now(), step: cfg.Start}
	p.shown = p.begun
	if cfg.Terminal && !cfg.Quiet && cfg.Total > 0 {
		p.bar = progressbar.NewOptions64(cfg.Total,
			progressbar.OptionSetWriter(cfg.Out),
			progressbar.OptionSetWidth(barWidth),
			progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(false),
			progressbar.OptionShowDescriptionAtLineEnd(),
		)
		p.draw()
	}
	return p
}

// Episode counts the return of a finished episode.
func (p *ProgressBar) Episode(ret float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.returns[p.count%returnWindow] = ret
	p.count++
}

// Update sets the timesteps so far, including Start, and shows them when a redraw is due.
func (p *ProgressBar) Update(step int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.step = step
	interval := plainInterval
	if p.bar != nil {
		interval = redrawInterval
	}
	if p.cfg.Now().Sub(p.shown) >= interval {
		p.draw()
	}
}

// Close shows the final state, with the elapsed time instead of the remaining time.
func (p *ProgressBar) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.draw()
	if p.bar != nil {
		_, _ = fmt.Fprintln(p.cfg.Out)
	}
	return nil
}

// Write writes b, which should be whole lines, and redraws the bar below it.
func (p *ProgressBar) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	live := p.bar != nil && !p.closed
	if live {
		_ = p.bar.Clear()
	}
	n, err := p.cfg.Out.Write(b)
	if live {
		p.draw()
	}
	return n, err
}

// draw shows the current state.
func (p *ProgressBar) draw() {
	if p.cfg.Quiet {
		return
	}
	p.shown = p.cfg.Now()
	if p.bar == nil {
		_, _ = fmt.Fprintln(p.cfg.Out, p.status(true))
		return
	}
	p.bar.Describe(p.status(false)) // always redraws; Set64 does so only if the percentage has changed
	_ = p.bar.Set64(min(p.step, p.cfg.Total))
}

// status returns the line of text, with the percentage if percent is set.
func (p *ProgressBar) status(percent bool) string {
	var b strings.Builder
	b.WriteString(shortCount(p.step))
	if p.cfg.Total > 0 {
		fmt.Fprintf(&b, "/%s", shortCount(p.cfg.Total))
	}
	b.WriteString(" steps")
	if percent && p.cfg.Total > 0 {
		fmt.Fprintf(&b, " (%d%%)", 100*min(p.step, p.cfg.Total)/p.cfg.Total)
	}
	elapsed := p.cfg.Now().Sub(p.begun)
	var rate float64
	if elapsed > 0 {
		rate = float64(p.step-p.cfg.Start) / elapsed.Seconds()
		fmt.Fprintf(&b, ", %s/s", shortCount(int64(rate)))
	}
	if n := min(p.count, returnWindow); n > 0 {
		fmt.Fprintf(&b, ", return %.4g", Mean(p.returns[:n]))
	}
	switch {
	case p.closed:
		fmt.Fprintf(&b, ", %s elapsed", elapsed.Round(time.Second))
	case rate > 0 && p.cfg.Total > 0:
		left := float64(max(0, p.cfg.Total-p.step)) / rate
		if left < maxLeft.Seconds() {
			fmt.Fprintf(&b, ", %s left", time.Duration(left*float64(time.Second)).Round(time.Second))
		}
	}
	return b.String()
}

const maxLeft = 1000 * time.Hour // a longer forecast is useless, and may not fit into a Duration

// shortCount formats n in a few characters, with k for thousands and M for millions.
func shortCount(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 999_950: // 999.9k
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return fmt.Sprintf("%.2fM", float64(n)/1e6)
}
