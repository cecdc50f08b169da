package gang

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/gang/profile"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/bsp"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// measureFlags holds the arguments of a measured profile.
type measureFlags struct {
	executor executorFlags
	server   kwok.Options
	repeats  int
	budget   time.Duration
	state    string
}

// measuredOnly lists the profile flags that need --executor.
var measuredOnly = []string{"repeats", "budget", "state", "kubeconfig", "allow-real-nodes"}

func (o *measureFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	o.executor.add(cmd)
	apiserver.Flags(cmd, &o.server)
	f.IntVar(&o.repeats, "repeats", 2, "with --executor: maximum measurements of a point")
	f.DurationVar(&o.budget, "budget", 0, "with --executor: time after which no measurement starts; the law fills in the rest (default: measure all)")
	f.StringVar(&o.state, "state", "", "with --executor: file of the measurements so far (default OUT.state.json)")
}

// measureProfile measures the points of a grid, and makes a profile from them.
func (c *gangProfileConfig) measureProfile(ctx context.Context, progress io.Writer) (_ *profile.Filled, _ *bsp.Measured, err error) {
	o := &c.measured
	if o.state == "" {
		if c.out == "" {
			return nil, nil, errors.New("--executor needs --out or --state: where to keep what is measured")
		}
		o.state = c.out + ".state.json"
	}
	if len(c.sizes) == 0 || len(c.shares) == 0 {
		return nil, nil, errors.New("--executor needs --sizes and --shares: what to measure")
	}
	works, err := bsp.ParseWorks(o.executor.workloads)
	if err != nil {
		return nil, nil, err
	}
	e, err := o.executor.open(ctx, o.server, progress)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	fmt.Fprintln(progress, "measuring:", e.Setting())
	m, err := bsp.MeasureProfile(ctx, bsp.ProfileConfig{
		Executor: e, Works: works, Sizes: c.sizes, Shares: c.shares, Repeats: o.repeats, Budget: o.budget,
		Limit: o.executor.limit, StateFile: o.state, Done: func(p bsp.ProfileProgress) {
			fmt.Fprintf(progress, "%d of %d: %s of size %v on %vm: %.3f s; the fit is expected within %.1f %%, %v left\n",
				p.Measured, p.Of, p.Task, p.Size, p.MilliCPU, p.Seconds, 100*p.Error, p.Left.Round(time.Second))
		},
	})
	if err != nil && ctx.Err() != nil {
		return nil, nil, fmt.Errorf("%w: what is measured is in %s, and the same command resumes: %w", cli.ErrInterrupted, o.state, err)
	}
	if err != nil {
		return nil, nil, err
	}
	var points bytes.Buffer
	if err := m.WriteCSV(&points); err != nil {
		return nil, nil, err
	}
	p, err := profile.FillFrom(o.state, &points, c.sizes, c.shares, c.smooth)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; the same command with more --budget measures more", err)
	}
	return p, m, nil
}

func printMeasured(w io.Writer, m *bsp.Measured) {
	if m == nil {
		return
	}
	fmt.Fprintf(w, "\n%s: %d of %d measurements, %d of them now\n", m.Setting, m.Resumed+m.Now, m.Of, m.Now)
	t := tracking.NewTable("task", "work for size 1", ">points", ">repeats", ">noise of log D", ">expected error of the fit")
	for _, x := range m.Tasks {
		t.Append(x.Task, x.Work, fmt.Sprint(x.Points), fmt.Sprint(x.Repeats), fmt.Sprintf("%.3f", x.Noise), fmt.Sprintf("%.3f", x.Error))
	}
	t.WriteText(w)
}
