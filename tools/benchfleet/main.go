// Command benchfleet measures vectors of environments on fleets of servers of several sizes. Each server is a
// process with GOMAXPROCS=1 on the loopback interface. The command writes the tables of docs/scale.md.
//
// Usage: go run ./tools/benchfleet --server bin/server
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/tools/cputime"
)

// A bench describes a measurement.
type bench struct {
	server  string
	id      string
	n       int
	vectors int
	servers []int
	rounds  int
	span    time.Duration
}

// A fleet is a number of servers, and the vectors that are spread over them.
type fleet struct {
	size    int
	cmds    []*exec.Cmd
	stdin   []io.Closer
	vectors []*client.Joined
	random  []*client.JoinedBaseline // of each vector

	rates  []float64     // environment steps per second, by round
	steps  int           // in all rounds
	client time.Duration // CPU time of this process in all rounds
}

func main() {
	var b bench
	var ids []string
	cmd := &cobra.Command{
		Use: "benchfleet", Short: "Measure one vector on several servers", Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			for _, b.id = range ids {
				err = errors.Join(err, b.run(cmd.Context(), cmd.OutOrStdout()))
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&b.server, "server", "bin/server", "path of the server")
	f.StringSliceVar(&ids, "env", []string{"k8s/GangWindow-v0", "k8s/VerticalPodAutoscaler-v1", "k8s/GPUPodScheduling-v1"}, "environments, each with its own table")
	f.IntVar(&b.n, "envs", 1024, "environments of all vectors together")
	f.IntVar(&b.vectors, "vectors", 1, "vectors, each stepped by its own goroutine, so that a server serves one while another waits for slower servers")
	f.IntSliceVar(&b.servers, "servers", []int{1, 2, 4}, "sizes of the fleets")
	f.IntVar(&b.rounds, "rounds", 9, "number of rounds; each gives every fleet a turn")
	f.DurationVar(&b.span, "for", 2*time.Second, "duration of a turn")
	if err := cmd.ExecuteContext(context.Background()); err != nil {
		os.Exit(1)
	}
}

func (b *bench) run(ctx context.Context, out io.Writer) (err error) {
	var fleets []*fleet
	defer func() {
		for _, f := range fleets {
			err = errors.Join(err, f.close())
		}
		if err == nil {
			err = b.table(out, fleets)
		}
	}()
	for _, size := range b.servers {
		f := &fleet{size: size}
		fleets = append(fleets, f)
		if err := f.start(ctx, b); err != nil {
			return err
		}
	}
	for r := range b.rounds {
		for k := range fleets {
			if err := fleets[(r+k)%len(fleets)].turn(ctx, b.span); err != nil {
				return err
			}
		}
	}
	return nil
}

// start starts the servers and spreads each vector over them in equal parts.
func (f *fleet) start(ctx context.Context, b *bench) error {
	var urls []string
	for range f.size {
		c := exec.CommandContext(ctx, b.server, "--listen", "127.0.0.1:0", "--exit-with-stdin", "--idle-timeout", "0", "--log-level", "warn")
		c.Env, c.Stderr = append(os.Environ(), "GOMAXPROCS=1"), os.Stderr
		in, err := c.StdinPipe()
		if err != nil {
			return err
		}
		stdout, err := c.StdoutPipe()
		if err != nil {
			return err
		}
		if err := c.Start(); err != nil {
			return fmt.Errorf("start %s: %w", b.server, err)
		}
		f.cmds, f.stdin = append(f.cmds, c), append(f.stdin, in)
		var ready struct {
			URL string `json:"url"`
		}
		if err := json.NewDecoder(stdout).Decode(&ready); err != nil {
			return fmt.Errorf("%s did not say where it listens: %w", b.server, err)
		}
		urls = append(urls, ready.URL)
	}
	for k := range b.vectors {
		v, err := client.Spread(ctx, urls, b.id, b.n/b.vectors, client.Options{Autoreset: envs.SameStep, Weights: slices.Repeat([]float64{1}, f.size)})
		if err != nil {
			return err
		}
		seed := uint64(1 + k*b.n)
		f.vectors, f.random = append(f.vectors, v), append(f.random, v.Baseline(envs.RandomName, seed))
		if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
			return err
		}
		for range 20 { // the first steps are slower
			if _, err := f.random[k].Step(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn plays random permitted actions for a while, and measures.
func (f *fleet) turn(ctx context.Context, span time.Duration) error {
	before, begin := cputime.Used(), time.Now()
	var steps atomic.Int64
	var turns errgroup.Group
	for k, v := range f.vectors {
		turns.Go(func() error {
			for time.Since(begin) < span {
				if _, err := f.random[k].Step(ctx); err != nil {
					return err
				}
				steps.Add(int64(v.NumEnvs()))
			}
			return nil
		})
	}
	if err := turns.Wait(); err != nil {
		return err
	}
	f.rates = append(f.rates, float64(steps.Load())/time.Since(begin).Seconds())
	f.steps += int(steps.Load())
	f.client += cputime.Used() - before
	return nil
}

func (f *fleet) close() error {
	var err error
	for _, v := range f.vectors {
		err = errors.Join(err, v.Close())
	}
	for k, c := range f.cmds {
		err = errors.Join(err, f.stdin[k].Close(), c.Wait())
	}
	return err
}

// table writes the medians. Other work on the machine does not change CPU time.
func (b *bench) table(out io.Writer, fleets []*fleet) error {
	var w strings.Builder
	fmt.Fprintf(&w, "\n%s, %d environments in %d vectors, %d rounds of %v, %d cores:\n\n", b.id, b.n, b.vectors, b.rounds, b.span, runtime.NumCPU())
	fmt.Fprintf(&w, "| servers | steps/s, median | least … most | × one server | CPU of servers, µs a step | CPU of the client |\n|--:|--:|--:|--:|--:|--:|\n")
	one := 0.0
	for _, f := range fleets {
		slices.Sort(f.rates)
		median := f.rates[len(f.rates)/2]
		one = cmp.Or(one, median)
		var servers time.Duration
		for _, c := range f.cmds {
			servers += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		}
		per := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(f.steps) }
		fmt.Fprintf(&w, "| %d | %.0f | %.0f … %.0f | %.2f | %.2f | %.2f |\n", f.size, median, f.rates[0], f.rates[len(f.rates)-1], median/one, per(servers), per(f.client))
	}
	_, err := io.WriteString(out, w.String())
	return err
}
