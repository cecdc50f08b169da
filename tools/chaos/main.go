//go:build linux

// Command chaos subjects the programs to faults, and prints the results as a table. docs/chaos.md shows the
// table and explains each row. It uses only loopback and ends by itself, with status 0 if no step was lost or
// taken twice, no session leaked, no program crashed, and every limit held.
//
// Usage: make chaos, or go run ./tools/chaos [--short] [--only ROW,…]
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A row is one experiment.
type row struct {
	name string
	run  func(p *probe)
}

var rows = []row{
	{"training", training},
	{"server gone", fleet},
	{"client killed", clientKilled},
	{"trainer killed", trainerKilled},
	{"parent killed", orphan},
	{"stops", stops},
	{"memory", memory},
	{"descriptors", descriptors},
	{"idle sessions", idle},
	{"refusals", refusals},
	{"peers", peers},
	{"HTTP", httpRequests},
	{"files", badFiles},
	{"disk full", diskFull},
	{"power loss", power},
	{"rollouts", rollouts},
	{"busy", busy},
	{"fuzz", fuzz},
}

// A tally counts violations.
type tally struct{ lost, doubled, leaked, crashes int }

func (t *tally) add(o tally) {
	t.lost += o.lost
	t.doubled += o.doubled
	t.leaked += o.leaked
	t.crashes += o.crashes
}

// A probe is a running row.
type probe struct {
	tally
	ctx      context.Context
	short    bool
	server   string // path of the program
	trainer  string
	python   string      // with the requirements of kubernasium
	dir      string      // its own folder
	mu       *sync.Mutex // guards figures and failures
	figures  []string
	failures []string
	skipped  string // why the row did not run
}

// figure adds a measurement.
func (p *probe) figure(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.figures = append(p.figures, fmt.Sprintf(format, args...))
}

// fail adds a failure.
func (p *probe) fail(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, fmt.Sprintf(format, args...))
}

// failOn fails the row if err is not nil, and reports whether it is not.
func (p *probe) failOn(err error, what string) bool {
	if err != nil {
		p.fail("%s: %v", what, err)
	}
	return err != nil
}

// must is failOn, and ends the calling goroutine if err is not nil: the row, or one that the row waits for.
func (p *probe) must(err error, what string) {
	if p.failOn(err, what) {
		runtime.Goexit()
	}
}

// pick returns the number for the short form, or else for the long one.
func (p *probe) pick(short, long int) int {
	if p.short {
		return short
	}
	return long
}

func main() {
	short := flag.Bool("short", os.Getenv("CHAOS") == "short", "a few minutes in place of half an hour; also CHAOS=short")
	only := flag.String("only", "", "rows to run, separated by commas; default all")
	bin := flag.String("bin", "bin", "folder of the programs server and trainer")
	python := flag.String("python", "python3", "a Python with NumPy and Gymnasium; without one the row about parents in Python is left out")
	list := flag.Bool("list", false, "print the names of the rows")
	role := flag.String("role", "", "what a process that chaos starts does (internal)")
	flag.Parse()
	if *role != "" {
		runRole(*role, flag.Args())
		return
	}
	if *list {
		for _, r := range rows {
			fmt.Println(r.name)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, probe{server: filepath.Join(*bin, "server"), trainer: filepath.Join(*bin, "trainer"), python: *python, short: *short}, *only); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// run runs the rows and prints the table.
func run(ctx context.Context, with probe, only string) error {
	chosen := rows
	if only != "" {
		names := strings.Split(only, ",")
		chosen = slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !slices.Contains(names, r.name) })
		if len(chosen) < len(names) {
			return fmt.Errorf("--only %s: some row is unknown; --list prints them", only)
		}
	}
	for _, program := range []*string{&with.server, &with.trainer} {
		path, err := filepath.Abs(*program)
		if err != nil {
			return err
		}
		*program = path
	}
	var total tally
	failed := 0
	fmt.Println("| row | result | seconds | figures |\n|---|---|--:|---|")
	for _, r := range chosen {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p, err := try(ctx, r, with)
		if err != nil {
			return err
		}
		total.add(p.tally)
		if len(p.failures) > 0 {
			failed++
		}
	}
	fmt.Printf("%d steps lost, %d doubled, %d sessions leaked, %d crashes\n", total.lost, total.doubled, total.leaked, total.crashes)
	if total != (tally{}) || failed > 0 {
		return fmt.Errorf("%d rows failed", max(failed, 1))
	}
	return nil
}

// try runs one row and prints its line.
func try(ctx context.Context, r row, p probe) (*probe, error) {
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p.ctx, p.dir, p.mu = ctx, dir, &sync.Mutex{}
	begin := time.Now()
	ended := make(chan struct{})
	go func() { // which must and serve may end
		defer close(ended)
		r.run(&p)
	}()
	<-ended
	if p.tally != (tally{}) {
		p.fail("%d steps lost, %d doubled, %d sessions leaked, %d crashes", p.lost, p.doubled, p.leaked, p.crashes)
	}
	result := "held"
	switch {
	case len(p.failures) > 0:
		result = "FAILED"
	case p.skipped != "":
		result = "not run"
	}
	said := cmp.Or(strings.Join(append(p.figures, p.failures...), "; "), p.skipped)
	fmt.Printf("| %s | %s | %.0f | %s |\n", r.name, result, time.Since(begin).Seconds(), strings.ReplaceAll(said, "\n", " "))
	return &p, nil
}
