package kwok

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/agents/shadow"
	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// shadowFlags holds the arguments of `kwok shadow`.
type shadowFlags struct {
	trace, html, since string
	decisions          string
	recorder           recordFlags   // output file of a recording that is made during the comparison
	every              time.Duration // interval of pages during the recording
	models, policies   []string
	env                string
	kwargs             map[string]any
	o                  shadow.Options
	page               sidePage
	shown              board.LiveReport
}

func newKwokShadow() *cobra.Command {
	var c shadowFlags
	cmd := &cobra.Command{
		Use:   "shadow",
		Short: "Report whether a policy would have scheduled a cluster better than its scheduler did",
		Long: `Report whether a policy would have scheduled a cluster better than its scheduler did.

The command reads a recording of the cluster, or with --record makes one until Ctrl-C. It lists and watches, and
changes nothing. It simulates a second cluster for each policy: the same nodes, and the same pods at the same
times, placed by the policy. A pod that fits nowhere waits until there is room; each runs as long as it did in
the recording. The report compares what happened with what would have happened: allocated CPU, memory and
GPUs, fragmentation, imbalance, nodes in use, pending pods and the time that pods wait. 95 % intervals are
from a bootstrap over blocks of time.

--board serves a page until Ctrl-C, also after the report: the report, and with --record the cluster with the
decisions of its scheduler and the scores of the first policy and of kube-scheduler's default.

The recording is the only state. With --record and an existing file the recording continues, and the report
covers all of it.`,
		Example: `  trainer kwok shadow --record cluster.jsonl.zst --policy Greedy --html report.html
  trainer kwok shadow --record cluster.jsonl.zst --policy Greedy --board 127.0.0.1:6007     # look on meanwhile
  trainer kwok shadow --trace day.jsonl.zst --policy Greedy
  trainer kwok shadow --trace day.jsonl.zst --model models/pretrained/k8s-PodBalance-v0/ppo.safetensors --policy KubeDefault --html report.html
  trainer kwok shadow --trace day.jsonl.zst --env k8s/GPUPodScheduling-v0 --policy FGD --since 6h --block 30m --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(c.check(), c.openPolicies()); err != nil {
				return err
			}
			return c.onBoard(cmd, func() error {
				ctx := cmd.Context()
				if c.recorder.out != "" {
					if err := c.record(cmd); err != nil {
						return err
					}
					c.trace, ctx = c.recorder.out, context.WithoutCancel(ctx) // Ctrl-C ends the recording, not the report
				}
				return c.report(ctx, cmd)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.trace, "trace", "", "recording of the cluster")
	f.StringVar(&c.recorder.out, "record", "", "record the cluster to this file, or continue the recording in it, and then report")
	f.DurationVar(&c.recorder.last, "for", 0, "duration of the recording; 0: until Ctrl-C")
	f.DurationVar(&c.every, "every", 10*time.Minute, "interval of new reports for --html and --board during the recording")
	f.StringVar(&c.recorder.server.Kubeconfig, "kubeconfig", "", "how to reach the cluster (default: that of "+kwok.KubeconfigVariable+", or in a pod its service account)")
	f.StringArrayVar(&c.models, "model", nil, "model file, trained in an environment whose actions are nodes (repeat)")
	f.StringArrayVar(&c.policies, "policy", nil, "baseline (repeat)")
	f.StringVar(&c.env, "env", live.DefaultEnv, "environment of the baselines; a model has its own")
	cli.KwargsVar(f, &c.kwargs, "env-kwargs", "option key:value of the environment (repeat; default: the model's)")
	f.StringArrayVar(&c.o.Schedulers, "scheduler-name", nil, "schedulerName of the pods that the policies place (repeat; default: all)")
	f.StringVar(&c.since, "since", "", "start of the comparison: a time such as 2026-03-01T06:00:00Z, or a duration since the recording's start; time before it is simulated but does not count")
	f.DurationVar(&c.o.Block, "block", shadow.DefaultBlock, "length of the bootstrap's blocks of time")
	f.StringVar(&c.decisions, "decisions", "", "CSV file for the recorded decisions and the policies' choices in the same state")
	f.StringVar(&c.html, "html", "", "HTML file for the report, with plots")
	f.StringVar(&c.page.address, "board", "", "address of a page with the report, and with --record the cluster, such as 127.0.0.1:6007; port 0 selects a free one, empty: none. Beyond loopback it needs a token")
	f.StringVar(&c.page.tokenFile, "token-file", "", "file with the token of the page's visitors (default: "+play.TokenVariable+", if set)")
	return cmd
}

func (c *shadowFlags) check() error {
	switch {
	case (c.trace == "") == (c.recorder.out == ""):
		return errors.New("want one of --trace and --record")
	case c.every <= 0:
		return fmt.Errorf("--every is %v, want more than 0", c.every)
	case len(c.models)+len(c.policies) == 0:
		return errors.New("want --model or --policy")
	case c.o.Block <= 0:
		return fmt.Errorf("--block is %v, want more than 0", c.o.Block)
	}
	return checkListen("--board", c.page.address, c.page.tokenFile)
}

// onBoard calls run, and with --board serves the page until run returns, and then until the command is
// interrupted.
func (c *shadowFlags) onBoard(cmd *cobra.Command, run func() error) (err error) {
	if c.page.address == "" {
		return run()
	}
	cfg := board.Config{Report: &c.shown}
	watch := func(ctx context.Context) error { <-ctx.Done(); return nil }
	if c.recorder.out != "" {
		c.recorder.server.AllowRealNodes = true // the page changes nothing, and neither does the recorder
		client, err := kwok.Connect(cmd.Context(), c.recorder.server)
		if err != nil {
			return err
		}
		w, err := newLiveCluster(c.o.Schedulers, c.first(), labels.Everything())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.close()) }()
		w.shadow, cfg.Cluster = true, w
		watch = func(ctx context.Context) error { return w.watch(ctx, client) }
	} else {
		c.page.fragment = "#shadow"
	}
	c.page.announce = func(url string) { fmt.Fprintln(cmd.ErrOrStderr(), url) } // stdout is for the report
	return c.page.serveDuring(cmd.Context(), cfg, watch, func(ctx context.Context) error {
		if err := run(); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

// first returns the policy that the page compares with the cluster's scheduler.
func (c *shadowFlags) first() live.Args {
	if len(c.models) > 0 {
		return live.Args{Model: c.models[0], Options: c.kwargs}
	}
	return live.Args{Baseline: c.policies[0], Env: c.env, Options: c.kwargs}
}

// show sends a report to the page.
func (c *shadowFlags) show(r *shadow.Report) error {
	if c.page.address == "" {
		return nil
	}
	text, err := json.Marshal(r)
	if err == nil {
		c.shown.Set(text, time.Now())
	}
	return err
}

// compare reads a recording and compares.
func (c *shadowFlags) compare(ctx context.Context, path string, stderr io.Writer) (*shadow.Report, error) {
	r, err := readRecording(path)
	if r != nil && errors.Is(err, clustertrace.ErrCut) {
		fmt.Fprintf(stderr, "%v; the report is of what is readable\n", err)
	} else if err != nil {
		return nil, err
	}
	o := c.o
	if o.Since, err = parseSince(c.since, r.Header.Start); err != nil {
		return nil, err
	}
	return shadow.Run(ctx, r, o)
}

// record records the cluster until the command is interrupted or its duration has passed. Meanwhile it writes
// pages.
func (c *shadowFlags) record(cmd *cobra.Command) error {
	switch _, err := os.Stat(c.recorder.out); {
	case err == nil:
		c.recorder.proceed = true
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	recorder, ended := c.recorder, make(chan error, 1)
	go func() {
		_, err := recorder.record(cmd)
		ended <- err
	}()
	if c.html == "" && c.page.address == "" {
		return <-ended
	}
	ticks := time.NewTicker(c.every)
	defer ticks.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-ticks.C:
			c.writePage(cmd.Context())
		}
	}
}

// writePage writes the page of the recording so far. An error does not stop the recording; the report at the
// end returns it.
func (c *shadowFlags) writePage(ctx context.Context) {
	r, err := c.compare(ctx, c.recorder.out, io.Discard)
	if err != nil {
		return
	}
	_ = c.show(r)
	if c.html != "" {
		_ = models.WriteFileAtomic(c.html, r.WriteHTML)
	}
}

func readRecording(path string) (*shadow.Recording, error) {
	f, err := clustertrace.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := shadow.Read(f)
	return r, errors.Join(err, f.Close())
}

// parseSince reads the flag --since.
func parseSince(text string, start time.Time) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, fmt.Errorf("--since %q, want a duration such as 6h or a time such as 2026-03-01T06:00:00Z", text)
	}
	return t.Sub(start), nil
}

// openPolicies opens each policy once as a check, and names it.
func (c *shadowFlags) openPolicies() error {
	open := func(name string, args live.Args) error {
		p, err := live.Open(args, 1)
		if err != nil {
			return err
		}
		if args.Model != "" {
			name = play.ModelName(args.Model, p.Name(), len(c.models) == 1)
		}
		c.o.Policies = append(c.o.Policies, shadow.Policy{Name: name, Open: func() (shadow.Chooser, func() error, error) {
			p, err := live.Open(args, 1)
			if err != nil {
				return nil, nil, err
			}
			return p, p.Close, nil
		}})
		return p.Close()
	}
	for _, path := range c.models {
		if err := open("", live.Args{Model: path, Options: c.kwargs}); err != nil {
			return err
		}
	}
	for _, name := range c.policies {
		if err := open(name, live.Args{Baseline: name, Env: c.env, Options: c.kwargs}); err != nil {
			return err
		}
	}
	return nil
}

// report compares, and writes the report.
func (c *shadowFlags) report(ctx context.Context, cmd *cobra.Command) error {
	var rows [][]string
	if c.decisions != "" {
		c.o.Decided = func(d shadow.Decision) error {
			row := append([]string{d.At.UTC().Format("2006-01-02T15:04:05.000Z"), d.Pod, d.Node}, d.Choices...)
			rows = append(rows, append(row, make([]string, 3+len(c.o.Policies)-len(row))...))
			return nil
		}
	}
	r, err := c.compare(ctx, c.trace, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if c.decisions != "" {
		header := []string{"time", "pod", "recorded"}
		for _, p := range c.o.Policies {
			header = append(header, p.Name)
		}
		if err := cli.WriteCSV(c.decisions, header, rows); err != nil {
			return err
		}
	}
	return errors.Join(c.print(cmd, r), c.show(r))
}

// print writes the report in the requested forms.
func (c *shadowFlags) print(cmd *cobra.Command, r *shadow.Report) error {
	if c.html != "" {
		if err := models.WriteFileAtomic(c.html, r.WriteHTML); err != nil {
			return err
		}
	}
	return cli.Print(cmd, r, func(w io.Writer) error { return printShadow(w, r) })
}

// maxListed is the maximum number of unplaced pods in the text.
const maxListed = 20

// printShadow writes the report as text.
func printShadow(w io.Writer, r *shadow.Report) error {
	const layout = "2006-01-02 15:04"
	fmt.Fprintf(w, "%s to %s UTC: %d nodes, %d pods to place, %d others\n\n", r.Start.UTC().Format(layout), r.End.UTC().Format(layout), r.Nodes, r.Pods, r.Given)
	names := []string{"metric", ">recorded"}
	for _, p := range r.Policies {
		names = append(names, ">"+p.Name, ">difference", "95 % interval", "")
	}
	t := tracking.NewTable(names...)
	for i, m := range r.Metrics {
		cells := []string{fmt.Sprintf("%s (%s)", m.Name, m.Unit), shadow.FormatNumber(float64(r.Recorded.Values[i].Value))}
		for _, p := range r.Policies {
			d := p.Differences[i]
			verdict := d.Verdict
			if verdict == shadow.NoDifference {
				verdict = ""
			}
			cells = append(cells, shadow.FormatNumber(float64(p.Values[i].Value)), shadow.FormatNumber(float64(d.Value)), shadow.FormatInterval(d.Low, d.High), verdict)
		}
		t.Append(cells...)
	}
	cells := []string{"pods placed", strconv.Itoa(r.Recorded.Placed)}
	for _, p := range r.Policies {
		cells = append(cells, strconv.Itoa(p.Placed), strconv.Itoa(p.Placed-r.Recorded.Placed), "", "")
	}
	t.Append(cells...)
	t.WriteText(w)
	fmt.Fprintln(w)
	for _, p := range r.Policies {
		printPolicy(w, &p)
	}
	printUnplaced(w, r)
	return nil
}

func printPolicy(w io.Writer, p *shadow.Cluster) {
	fmt.Fprintf(w, "%s agrees with %s %% of %d recorded decisions", p.Name, shadow.FormatNumber(float64(p.Agreement.Value)), p.Asked)
	if in := shadow.FormatInterval(p.Agreement.Low, p.Agreement.High); in != "" {
		fmt.Fprintf(w, ", 95 %% interval %s", in)
	}
	fmt.Fprintln(w)
	if p.Violations > 0 {
		fmt.Fprintf(w, "  %d evictions broke a disruption budget: no node had pods to evict without\n", p.Violations)
	}
	if p.Displaced+p.Deferred > 0 {
		fmt.Fprintf(w, "  %d pods waited anew, for their node was removed; %d resizes waited for room\n", p.Displaced, p.Deferred)
	}
}

// printUnplaced lists the pods that neither side placed, and what the simulation omits.
func printUnplaced(w io.Writer, r *shadow.Report) {
	if n := len(r.Unplaced); n > 0 {
		fmt.Fprintf(w, "\n%d pods that nobody placed", n)
		if n > maxListed {
			fmt.Fprintf(w, ", of which the first %d; --json and --html list all", maxListed)
		}
		fmt.Fprintln(w)
		t := tracking.NewTable("pod", "created", ">CPU", ">memory, MiB", ">GPUs")
		for _, p := range r.Unplaced[:min(n, maxListed)] {
			t.Append(p.Pod, p.Created.UTC().Format(time.RFC3339), number(float64(p.MilliCPU)/1000), number(math.Round(float64(p.MemoryBytes)/(1<<20))), number(float64(p.GPUs)*float64(p.MilliGPU)/1000))
		}
		t.WriteText(w)
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(w, "\n%d recorded decisions put a pod on a node though it fits none by the rules known here; no policy was asked about them\n", r.LeftOut)
	}
	for i, what := range r.NotModelled {
		if i == 0 {
			fmt.Fprintln(w, "\nNot modelled:")
		}
		fmt.Fprintf(w, "  %s\n", what)
	}
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
