package kwok

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
	"github.com/kubernasium/kubernasium/kwok/profile"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// profileFlags holds the arguments of `kwok profile`.
type profileFlags struct {
	profile.Config
	out, combinations, nodeTable, command, pods string
	most                                        int
	coverage                                    float64
	seed, tableSeed                             uint64
	noise                                       float64
	duration, timeout                           time.Duration
}

// profileResult is the JSON of `kwok profile`.
type profileResult struct {
	Out      string       `json:"out"`
	State    string       `json:"state"`
	Rows     int          `json:"rows"`     // rows of the profile
	Measured int          `json:"measured"` // measurements of this call
	Resumed  int          `json:"resumed"`  // earlier measurements
	Failed   []lra.Counts `json:"failed"`
	Seconds  float64      `json:"seconds"`
}

// Flags that apply to one kind of load only.
var (
	lawFlags     = []string{"node-table", "table-seed", "noise", "nodes"}
	commandFlags = []string{"warm-up", "duration", "timeout", "pods", "node"}
)

func newKwokProfile() *cobra.Command {
	var o profileFlags
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Collect the profile of long-running applications: launch combinations, load them, measure",
		Long: `Collect a profile of applications that interfere: launch a combination of their containers on a
node as Jobs, let them warm up, load them, measure their throughput, delete them, and continue with the
next. Several nodes measure at the same time, one combination each.

Each measurement is written to the state file at once. The same command resumes after an interruption,
and with a higher coverage makes the missing measurements.

On KWOK's nodes nothing runs that could be loaded, so a law of interference gives the throughput. With
--load-command a process loads each container, for all of a combination at the same time. The command is
a template with {{.App}}, {{.Pod}}, {{.Namespace}}, {{.Node}}, {{.Address}}, {{.Duration}} and {{.Seconds}}, run by sh, and
prints {"rps": NUMBER, "rt50": SECONDS, "rt99": SECONDS}.

The profile is a CSV file with throughputs relative to that of the application alone on a node. trainer lra
predict makes a node table from it, which environments read by their option table.`,
		Example: `  trainer kwok profile --out profile.csv --coverage 0.2 --noise 0.02
  trainer lra predict --profile profile.csv --out table.csv
  trainer compare --env k8s/LRAPlacement-v0 --env-kwargs table:table.csv
  trainer kwok profile --out real.csv --node worker-7 --pods apps.yaml --kubeconfig FILE --allow-real-nodes \
    --load-command './load.sh {{.App}} {{.Address}} --clients 4 --time {{.Seconds}}'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			wrong, why := commandFlags, "it is for --load-command"
			if o.command != "" {
				wrong, why = lawFlags, "it is for simulated containers, not for --load-command"
			}
			for _, name := range wrong {
				if cmd.Flags().Changed(name) {
					return fmt.Errorf("--%s: %s", name, why)
				}
			}
			begin := time.Now()
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			res := profileResult{o.out, o.StateFile, len(r.Profile), r.Measured, r.Resumed, append([]lra.Counts{}, r.Failed...), time.Since(begin).Seconds()}
			err = cli.Printf(cmd, res, "%s: %d measurements, %d of them now, in %.1f s\n", res.Out, res.Rows, res.Measured, res.Seconds)
			if err == nil && len(r.Failed) > 0 {
				err = fmt.Errorf("%d combinations could not be measured, the first of them %v; the same command tries again", len(r.Failed), r.Failed[0])
			}
			return err
		},
	}
	o.add(cmd)
	return cmd
}

func (o *profileFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.out, "out", "o", "", "CSV file of the profile")
	f.StringVar(&o.StateFile, "state", "", "file of the measurements so far (default OUT.state.json)")
	f.IntVar(&o.most, "max-containers", lra.MaxSlots, "maximum containers of a combination")
	f.Float64Var(&o.coverage, "coverage", 0.2, "fraction of the combinations to measure, besides each application alone")
	f.StringVar(&o.combinations, "combinations", "", "CSV file of the combinations to measure instead of a random fraction, with a column for each application")
	f.IntVar(&o.Repeats, "repeats", 1, "measurements of each combination")
	f.Uint64Var(&o.seed, "seed", 0, "random seed of the choice of combinations, and of the noise")
	f.IntVar(&o.NewNodes, "nodes", 4, "simulated nodes to make")
	f.StringVar(&o.nodeTable, "node-table", "", "CSV file of the law (default: the generated table of --table-seed)")
	f.Uint64Var(&o.tableSeed, "table-seed", 0, "random seed of the generated table, like the option table_seed")
	f.Float64Var(&o.noise, "noise", 0, "standard deviation of the logarithm of a container's throughput")
	f.StringVar(&o.command, "load-command", "", "template of the command that loads a container")
	f.StringArrayVar(&o.Nodes, "node", nil, "node to measure on, with --load-command (repeat)")
	f.StringVar(&o.pods, "pods", "", "YAML file or folder with a Pod named after each application, with --load-command")
	f.DurationVar(&o.WarmUp, "warm-up", 30*time.Second, "time between the start of the containers and the load, with --load-command")
	f.DurationVar(&o.duration, "duration", 5*time.Minute, "duration of the load, with --load-command")
	f.DurationVar(&o.timeout, "timeout", 8*time.Minute, "time after which a load command is killed")
	f.StringVar(&o.Namespace, "namespace", "", "namespace of the containers (default: a temporary one)")
	apiserver.Flags(cmd, &o.Server)
	_ = cmd.MarkFlagRequired("out") // the flag exists
}

// run collects the measurements, and writes the profile.
func (o *profileFlags) run(ctx context.Context, progress io.Writer) (*profile.Result, error) {
	o.StateFile = cmp.Or(o.StateFile, o.out+".state.json")
	var err error
	if o.combinations == "" {
		o.Combinations, err = profile.Combinations(o.most, o.coverage, o.seed)
	} else if o.Combinations, err = files.ReadBatchesFile(o.combinations); err == nil {
		o.Combinations, err = profile.WithAlone(o.Combinations)
	}
	if err != nil {
		return nil, err
	}
	if err := o.load(); err != nil {
		return nil, err
	}
	o.Done = func(p profile.Progress) {
		text := ""
		if p.Err != nil {
			text = ": " + p.Err.Error()
		}
		fmt.Fprintf(progress, "%d of %d: %v%s\n", p.Measured, p.Of, p.Counts, text)
	}
	r, err := profile.Collect(ctx, o.Config)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%w: what is measured is in %s, and the same command goes on: %w", cli.ErrInterrupted, o.StateFile, err)
	}
	if err != nil {
		return nil, err
	}
	return r, models.WriteFileAtomic(o.out, func(w io.Writer) error { return files.WriteProfile(w, r.Profile) })
}

// load makes the load and the pods that the flags select.
func (o *profileFlags) load() error {
	if o.command != "" {
		if len(o.Nodes) == 0 || o.pods == "" {
			return errors.New("--load-command needs --node and --pods: where and what to launch")
		}
		var err error
		if o.Load, err = profile.NewCommand(o.command, o.duration, o.timeout); err != nil {
			return err
		}
		return o.readPods()
	}
	o.WarmUp = 0 // simulated containers need none
	if !(o.noise >= 0 && o.noise < 1) {
		return fmt.Errorf("--noise %v, want at least 0 and below 1", o.noise)
	}
	law := &profile.Law{Noise: o.noise, Seed: o.seed}
	if o.nodeTable == "" {
		law.Table, law.Name = throughput.GenerateTable(o.tableSeed), fmt.Sprintf("table seed %d", o.tableSeed)
	} else {
		var err error
		if law.Table, err = files.ReadTableFile(o.nodeTable); err != nil {
			return err
		}
		law.Name = o.nodeTable
	}
	o.Load = law
	return nil
}

// readPods reads a pod for each application.
func (o *profileFlags) readPods() error {
	objects, err := kubeyaml.Read(o.pods)
	if err != nil {
		return err
	}
	o.Pods = map[string]corev1.PodTemplateSpec{}
	for _, p := range objects.Pods {
		o.Pods[p.Name] = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations}, Spec: p.Spec}
	}
	var missing []string
	for _, app := range lra.Apps {
		if _, ok := o.Pods[app]; !ok {
			missing = append(missing, app)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s has no Pod for %v", o.pods, missing)
	}
	return nil
}
