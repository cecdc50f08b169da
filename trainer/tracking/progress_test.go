package tracking

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// manualClock is a clock that the test moves.
type manualClock struct{ now time.Time }

func (c *manualClock) Now() time.Time          { return c.now }
func (c *manualClock) advance(d time.Duration) { c.now = c.now.Add(d) }

func TestProgressPlain(t *testing.T) {
	clock := &manualClock{fixedClock()}
	var out strings.Builder
	p := NewProgressBar(ProgressBarConfig{Out: &out, Total: 100_000, Now: clock.Now})
	for step := int64(1000); step <= 25_000; step += 1000 { // 1000 steps each second
		clock.advance(time.Second)
		if step == 15_000 {
			p.Episode(10)
			p.Episode(15)
		}
		p.Update(step)
	}
	_, _ = fmt.Fprintln(p, "a line of the log")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p.Update(26_000)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	want := `10.0k/100.0k steps (10%), 1000/s, 1m30s left
20.0k/100.0k steps (20%), 1000/s, return 12.5, 1m20s left
a line of the log
25.0k/100.0k steps (25%), 1000/s, return 12.5, 25s elapsed
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output differs (-want +got):\n%s", diff)
	}
}

func TestProgressResumed(t *testing.T) {
	clock := &manualClock{fixedClock()}
	var out strings.Builder
	p := NewProgressBar(ProgressBarConfig{Out: &out, Total: 100_000, Start: 40_000, Now: clock.Now})
	clock.advance(10 * time.Second)
	p.Update(45_000)
	// 5000 steps in 10 s; the 55 000 that remain take 110 s.
	if got, want := out.String(), "45.0k/100.0k steps (45%), 500/s, 1m50s left\n"; got != want {
		t.Errorf("output = %q, want %q", got, want)
	}
}

func TestProgressUnknownTotal(t *testing.T) {
	clock := &manualClock{fixedClock()}
	var out strings.Builder
	p := NewProgressBar(ProgressBarConfig{Out: &out, Terminal: true, Now: clock.Now})
	clock.advance(10 * time.Second)
	p.Update(50)
	if got, want := out.String(), "50 steps, 5/s\n"; got != want {
		t.Errorf("output = %q, want %q", got, want)
	}
}

func TestProgressReturnWindow(t *testing.T) {
	clock := &manualClock{fixedClock()}
	var out strings.Builder
	p := NewProgressBar(ProgressBarConfig{Out: &out, Total: 10, Now: clock.Now})
	for range 50 {
		p.Episode(1000) // leaves the window
	}
	for i := range 100 {
		p.Episode(float64(i)) // mean of 0 to 99: 49.5
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "0/10 steps (0%), return 49.5, 0s elapsed\n"; got != want {
		t.Errorf("output = %q, want %q", got, want)
	}
}

func TestProgressTerminal(t *testing.T) {
	clock := &manualClock{fixedClock()}
	var out strings.Builder
	p := NewProgressBar(ProgressBarConfig{Out: &out, Total: 2000, Terminal: true, Now: clock.Now})
	clock.advance(time.Second)
	p.Update(500)
	drawn := out.Len()
	clock.advance(redrawInterval / 2)
	p.Update(550)
	if out.Len() != drawn {
		t.Errorf("redrawn after %v: %q", redrawInterval/2, out.String()[drawn:])
	}
	_, _ = fmt.Fprintln(p, "a line of the log")
	clock.advance(time.Second - redrawInterval/2)
	p.Update(2500) // the last rollout may go beyond the total
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintln(p, "after")
	screen := terminal(out.String())
	want := []string{
		"a line of the log",
		" 100% |████████████████████|  2500/2000 steps, 1250/s, 2s elapsed",
		"after",
		"",
	}
	if diff := cmp.Diff(want, screen); diff != "" {
		t.Errorf("screen differs (-want +got):\n%s", diff)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("output has escape sequences: %q", out.String())
	}
}

// terminal returns the lines that a terminal would show, without spaces at their ends.
func terminal(s string) []string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		var cells []rune
		at := 0
		for _, r := range l {
			if r == '\r' {
				at = 0
				continue
			}
			if at == len(cells) {
				cells = append(cells, r)
			}
			cells[at] = r
			at++
		}
		lines[i] = strings.TrimRight(string(cells), " ")
	}
	return lines
}

func TestProgressQuiet(t *testing.T) {
	for _, term := range []bool{false, true} {
		clock := &manualClock{fixedClock()}
		var out strings.Builder
		p := NewProgressBar(ProgressBarConfig{Out: &out, Total: 100, Terminal: term, Quiet: true, Now: clock.Now})
		clock.advance(time.Minute)
		p.Update(50)
		_, _ = io.WriteString(p, "log\n")
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), "log\n"; got != want {
			t.Errorf("terminal %t: output = %q, want %q", term, got, want)
		}
	}
}

func TestShortCount(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 9999: "9999", 10_000: "10.0k", 999_949: "999.9k", 999_950: "1.00M", 1_500_000_000: "1500.00M",
	} {
		if got := shortCount(n); got != want {
			t.Errorf("shortCount(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestIsTerminal(t *testing.T) {
	if IsTerminal(io.Discard) {
		t.Error("IsTerminal(io.Discard) = true, want false")
	}
}
