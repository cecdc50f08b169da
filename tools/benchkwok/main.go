//go:build unix

// Command benchkwok measures the environments on a real API server and prints one table: the
// target, the measurement, and the CPU time of both sides, which other work on the machine changes
// little. It starts its own control planes.
//
// Usage: make bench-kwok, or go run ./tools/benchkwok [flags] [-- flags of the control plane]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/kwok"
)

func main() {
	var b bench
	flag.DurationVar(&b.soaking, "soak", 6*time.Minute, "duration of the soak, in rounds of 1,000 pods and a reset; at least 12 rounds")
	flag.IntVar(&b.episodes, "episodes", 100, "parity episodes of 50 decisions for each environment")
	flag.StringVar(&b.profile, "profile", "", "file for a CPU profile of the control plane during the soak")
	flag.Parse()
	b.flags = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := b.run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "benchkwok:", err)
		os.Exit(1)
	}
}

// bench is one run of the benchmark.
type bench struct {
	soaking  time.Duration
	episodes int
	profile  string
	flags    []string // flags of the control planes
	rows     []row
}

// A row of the table.
type row struct {
	what     string
	got      float64
	format   string // unit of got
	target   string
	met      bool
	ours     float64 // CPU seconds of this process
	theirs   float64 // CPU seconds of the control plane
	spending bool    // the row has CPU seconds
}

// atMost and atLeast record a measurement with its target.
func (b *bench) atMost(what, format string, got, limit float64) *row {
	return b.add(row{what: what, got: got, format: format, target: "≤ " + fmt.Sprintf(format, limit), met: got <= limit})
}

func (b *bench) atLeast(what, format string, got, limit float64) *row {
	return b.add(row{what: what, got: got, format: format, target: "≥ " + fmt.Sprintf(format, limit), met: got >= limit})
}

func (b *bench) add(r row) *row {
	b.rows = append(b.rows, r)
	return &b.rows[len(b.rows)-1]
}

func (b *bench) run(ctx context.Context, w io.Writer) error {
	seconds, err := startSeconds(ctx, b.flags)
	if err != nil {
		return err
	}
	b.atMost("time to ready, all components, median of 3", "%.2f s", seconds, 4)
	p, err := startPlane(ctx, b.flags)
	if err != nil {
		return err
	}
	err = b.speed(ctx, p)
	var rounds []round
	if err == nil {
		rounds, err = b.soak(ctx, p)
	}
	if err = errors.Join(err, p.Stop()); err != nil {
		return err
	}
	b.print(w)
	printRounds(w, rounds)
	return b.parity(ctx, w)
}

// print writes the table.
func (b *bench) print(w io.Writer) {
	fmt.Fprintln(w, "| what | target | measured | met | CPU s, control plane | CPU s, client |\n|---|--:|--:|---|--:|--:|")
	for _, r := range b.rows {
		met, ours, theirs := "yes", "", ""
		if !r.met {
			met = "**no**"
		}
		if r.spending {
			ours, theirs = fmt.Sprintf("%.2f", r.ours), fmt.Sprintf("%.2f", r.theirs)
		}
		fmt.Fprintf(w, "| %s | %s | "+r.format+" | %s | %s | %s |\n", r.what, r.target, r.got, met, theirs, ours)
	}
}

// parity plays every environment and its twin on its own control plane, and fails if they differ.
func (b *bench) parity(ctx context.Context, w io.Writer) error {
	if b.episodes == 0 {
		return nil
	}
	p, err := startPlane(ctx, b.flags)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "\n| environment | episodes | decisions | pods | differences | s on the API server |\n|---|--:|--:|--:|--:|--:|")
	for _, s := range envs.Specs() {
		if original, _, err := kwok.Original(s.ID); err != nil || original != s {
			continue // it has no twin, or is one
		}
		r, failed := kwok.Parity(ctx, kwok.ParityConfig{Env: s.ID, Episodes: b.episodes, Decisions: 50, Server: p.options()})
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", s.ID, failed))
			break
		}
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d | %.1f |\n", s.ID, r.Episodes, r.Decisions, r.Pods, len(r.Differences), r.Seconds)
		for _, d := range r.Differences {
			err = errors.Join(err, fmt.Errorf("%s: episode %d, decision %d: %s differs:\n%s", s.ID, d.Episode, d.Decision, d.What, d.Detail))
		}
	}
	return errors.Join(err, p.Stop())
}
