package gang

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/gang"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
	"github.com/kubernasium/kubernasium/kwok/bsp"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// gangProfileConfig holds the arguments of `gang profile`.
type gangProfileConfig struct {
	given  map[string]any
	seed   uint64
	fill   string
	laws   string
	sizes  []float64
	shares []float64
	smooth bool
	size   float64
	ages   int
	out    string
	csv    string
	plot   string

	measured measureFlags
}

// gangProfile is the JSON of `gang profile`.
type gangProfile struct {
	*gang.ProfileReport
	Measured *bsp.Measured `json:"measured,omitempty"`
	Out      string        `json:"out,omitempty"`
}

func newGangProfile() *cobra.Command {
	var c gangProfileConfig
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Show task durations by size and share and the value of re-planning, or make a profile",
		Long: `Show task durations by size and share and the value of re-planning, or make a profile.

It uses the profile of ` + gangEnv + ` with the options given, or about one that it makes: --fill
from a CSV file with some of the points (Task Name, Workload Size, CPU Shares in millicores, Duration
in seconds), whose others are the saturating law's D = a·w^size_exp·min(c, c_max)^-share_exp seconds
for size w on c cores, fitted to each task; --laws from a JSON list of such laws. --out writes it for
the option profile.

--executor local measures one: it runs each workload, a stressor of stress-ng, at sizes and on CPU shares
of this machine, by cgroup v2 or v1 or else by affinity and a duty cycle, as it says. It measures first
what most reduces the error of the laws. The same command resumes; --budget ends it earlier, and the laws
fill in what is missing. --executor kubernetes measures Jobs with the share as request and limit.

It prints each task's law and how well it holds, durations by shares, and for an episode with the
profile how long a superstep takes under plans as they age, and so how long to keep them.`,
		Example: `  trainer gang profile
  trainer gang profile --env-kwargs data:../shared/data/gang --plot durations.png
  trainer gang profile --fill measured.csv --sizes 10,30,50,70 --out profile.csv
  trainer gang profile --laws laws.json --out profile.csv --env-kwargs total_cpu_m:8000
  trainer gang profile --executor local --workloads memcpy,vecmath --sizes 10,20,35,50 --shares 200,400,800,1600 \
    --budget 10m --out measured.csv --env-kwargs total_cpu_m:2000 --env-kwargs start_cpu_m:200
  trainer train --algo ppo --env ` + gangEnv + ` --env-kwargs profile:profile.csv --env-kwargs total_cpu_m:8000`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.measured.executor.check(cmd, measuredOnly...); err != nil {
				return err
			}
			if err := play.CheckSeed(c.seed, 1); err != nil {
				return err
			}
			r, err := c.run(cmd.Context(), cmd.Flags().Changed("size"), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return cli.Print(cmd, r, r.print)
		},
	}
	f := cmd.Flags()
	cli.KwargsVar(f, &c.given, "env-kwargs", "option key:value of the environment (repeat)")
	f.Uint64Var(&c.seed, "seed", play.CompareSeed, "random seed of the episode")
	f.StringVar(&c.fill, "fill", "", "file of points to make a profile from")
	f.StringVar(&c.laws, "laws", "", "file of laws to make a profile from")
	f.Float64SliceVar(&c.sizes, "sizes", nil, "workload sizes of the new profile (with --fill: besides those of the file; with --executor: to measure)")
	f.Float64SliceVar(&c.shares, "shares", nil, "shares of the new profile in millicores (likewise)")
	f.BoolVar(&c.smooth, "smooth", false, "with --fill and --executor: take all points from the laws, so that more shares never take longer")
	f.Float64Var(&c.size, "size", 0, "workload size whose durations are shown (default: the middle of the profile's sizes)")
	f.IntVar(&c.ages, "ages", 6, "numbers of supersteps for which a plan is kept")
	f.StringVarP(&c.out, "out", "o", "", "file to write the profile to")
	f.StringVar(&c.csv, "csv", "", "CSV file of the spline: seconds of each task at each size of the profile and each possible share")
	f.StringVar(&c.plot, "plot", "", "PNG file: seconds by share")
	c.measured.add(cmd)
	return cmd
}

func (c *gangProfileConfig) run(ctx context.Context, sizeGiven bool, progress io.Writer) (*gangProfile, error) {
	kwargs, err := c.envKwargs()
	if err != nil {
		return nil, err
	}
	made, filled, measured, err := c.make(ctx, progress)
	if err != nil {
		return nil, err
	}
	if made != nil {
		path := c.out
		if path == "" {
			dir, err := os.MkdirTemp("", "profile")
			if err != nil {
				return nil, err
			}
			defer os.RemoveAll(dir)
			path = filepath.Join(dir, "profile.csv")
		}
		if err := cli.WriteTo(path, func(w io.Writer) error { return profile.Write(w, made) }); err != nil {
			return nil, err
		}
		kwargs["profile"] = path
	}
	v, err := envs.Make(gangEnv, 1, envs.VecOptions{Options: kwargs, Autoreset: envs.Disabled})
	if err != nil {
		return nil, err
	}
	defer v.Close()
	play.WarnOnce(v.Notes())
	if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &c.seed}); err != nil {
		return nil, err
	}
	task := v.Env(0).Task().(*gang.Task)
	ep := task.Episode()
	if c.ages < 1 || c.ages > ep.Steps {
		return nil, fmt.Errorf("--ages %d, want 1 to the %d steps of the episode", c.ages, ep.Steps)
	}
	m := task.Instance().Model()
	p := m.Profile()
	if made == nil && c.out != "" {
		if err := cli.WriteTo(c.out, func(w io.Writer) error { return profile.Write(w, p) }); err != nil {
			return nil, err
		}
	}
	if !sizeGiven {
		c.size = p.Sizes[len(p.Sizes)/2]
	}
	if low, high := p.Sizes[0], p.Sizes[len(p.Sizes)-1]; !(c.size >= low && c.size <= high) {
		return nil, fmt.Errorf("--size %v, want one of the profile's, %v to %v", c.size, low, high)
	}
	r, err := cli.Computed(ctx, func() (*gang.ProfileReport, error) { return task.ReportProfile(c.size, c.ages), nil })
	if err != nil {
		return nil, err
	}
	r.Filled = filled
	return &gangProfile{r, measured, c.out}, c.files(m)
}

// make returns the profile to write, if there is one, what it has filled in, and what it has measured.
func (c *gangProfileConfig) make(ctx context.Context, progress io.Writer) (_ *profile.Profile, p *profile.Filled, m *bsp.Measured, err error) {
	switch {
	case c.sources() > 1:
		return nil, nil, nil, errors.New("want one of --fill, --laws and --executor")
	case c.laws != "":
		if c.smooth {
			return nil, nil, nil, errors.New("--smooth is of --fill and --executor; a profile of --laws is smooth")
		}
		laws, err := profile.ReadLaws(c.laws)
		if err != nil {
			return nil, nil, nil, err
		}
		p, err := profile.FromLaws(laws, c.sizes, c.shares)
		return p, nil, nil, err
	case c.fill != "":
		p, err = profile.Fill(c.fill, c.sizes, c.shares, c.smooth)
	case c.measured.executor.name != "":
		p, m, err = c.measureProfile(ctx, progress)
	case c.smooth || len(c.sizes) > 0 || len(c.shares) > 0:
		return nil, nil, nil, errors.New("--smooth, --sizes and --shares are of a profile that is made: want --fill or --laws or --executor")
	default:
		return nil, nil, nil, nil
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return p.Profile, p, m, nil
}

// sources returns the number of given sources of a profile.
func (c *gangProfileConfig) sources() (n int) {
	for _, given := range []string{c.fill, c.laws, c.measured.executor.name} {
		if given != "" {
			n++
		}
	}
	return n
}

func (c *gangProfileConfig) envKwargs() (map[string]any, error) {
	if _, ok := c.given["profile"]; ok && c.sources() > 0 {
		return nil, errors.New("--env-kwargs profile with --fill, --laws or --executor, want one of them")
	}
	spec, err := envs.Lookup(gangEnv)
	if err != nil {
		return nil, err
	}
	return play.HeldOut(spec, nil, c.given), nil
}

// files writes the requested files other than the profile.
func (c *gangProfileConfig) files(m *profile.Model) error {
	if err := cli.WriteTo(c.csv, func(w io.Writer) error { return profile.WriteModel(w, m) }); err != nil || c.plot == "" {
		return err
	}
	var curves []tracking.Series
	for k, name := range m.Profile().Tasks {
		s := tracking.Series{Name: name}
		for _, share := range m.Shares() {
			s.Steps, s.Mean = append(s.Steps, int64(share)), append(s.Mean, m.Duration(k, c.size, float64(share)))
		}
		curves = append(curves, s)
	}
	return tracking.Curves(c.plot, fmt.Sprintf("Duration of a superstep for size %v", c.size), "millicores", "seconds", curves, nil)
}

func (r *gangProfile) print(w io.Writer) error {
	n, m := len(r.Sizes), len(r.Shares)
	fmt.Fprintf(w, "%d tasks at %d sizes from %v to %v and %d shares from %v to %v millicores", len(r.Tasks), n, r.Sizes[0], r.Sizes[n-1], m, r.Shares[0], r.Shares[m-1])
	fmt.Fprintln(w)
	printMeasured(w, r.Measured)
	printFilled(w, r.Filled)
	fmt.Fprint(w, "\nSeconds of a superstep, and the law that fits; steps to more cores that take longer, to more work that take less\n")
	t := tracking.NewTable("task", ">least", ">median", ">mean", ">most", "law", ">R²", ">longer", ">less", ">worst rise")
	for _, x := range r.Tasks {
		t.Append(x.Task, fmt.Sprintf("%.3f", x.Min), fmt.Sprintf("%.3f", x.Median), fmt.Sprintf("%.3f", x.Mean), fmt.Sprintf("%.3f", x.Max),
			lawText(&x.Law), fmt.Sprintf("%.4f", x.R2),
			fmt.Sprintf("%d/%d", x.Slower, x.ShareSteps), fmt.Sprintf("%d/%d", x.Faster, x.SizeSteps), fmt.Sprintf("%.1f %%", 100*x.WorstRise))
	}
	t.WriteText(w)
	fmt.Fprintf(w, "\nSeconds for size %v, by millicores\n", r.Size)
	names := []string{"task"}
	for _, share := range r.At {
		names = append(names, fmt.Sprintf(">%v", share))
	}
	t = tracking.NewTable(names...)
	for _, x := range r.Tasks {
		t.Append(append([]string{x.Task}, texts("%.1f", r.Durations[x.Task])...)...)
	}
	t.WriteText(w)
	fmt.Fprintf(w, "\nMean seconds of a superstep under a plan made so many supersteps before, one episode; re-planning costs %v s (%s)\n", r.Penalty, r.Method)
	names = []string{">window"}
	for age := range r.Windows[0].Seconds {
		names = append(names, fmt.Sprintf(">%d", age))
	}
	t = tracking.NewTable(append(names, ">re-plan after", ">s per superstep")...)
	for _, x := range r.Windows {
		interval := strconv.Itoa(x.Interval)
		if x.Interval == len(x.Seconds) {
			interval += " or more"
		}
		t.Append(append(append([]string{strconv.Itoa(x.Window)}, texts("%.2f", x.Seconds)...), interval, fmt.Sprintf("%.2f", x.PerSuperstep))...)
	}
	t.WriteText(w)
	for _, note := range r.Notes {
		fmt.Fprintf(w, "\nNote: %s\n", note)
	}
	if r.Out != "" {
		fmt.Fprintf(w, "\n%s is written; play it with --env-kwargs profile:%s\n", r.Out, r.Out)
	}
	return nil
}

func printFilled(w io.Writer, f *profile.Filled) {
	if f == nil {
		return
	}
	fmt.Fprintf(w, "\n%d points of the file and %d by the laws that fit these; by how much logarithms of the former are off\n", f.Measured, f.Missing)
	t := tracking.NewTable("task", "law", ">RMS", ">worst")
	for i := range f.Laws {
		l := &f.Laws[i]
		t.Append(l.Task, lawText(l), fmt.Sprintf("%.3f", l.RMS), fmt.Sprintf("%.3f", l.Worst))
	}
	t.WriteText(w)
}

func lawText(l *profile.Law) string {
	if l.A == 0 {
		return "none"
	}
	return fmt.Sprintf("%.3f·w^%.3f·min(c, %.2f)^%.3f", l.A, l.SizeExp, l.CMax, -l.ShareExp)
}

// texts formats numbers.
func texts(format string, values []float64) []string {
	all := make([]string, len(values))
	for i, x := range values {
		all[i] = fmt.Sprintf(format, x)
	}
	return all
}
