package kwok

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/vpa/workload"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/load"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
	"github.com/kubernasium/kubernasium/trainer/play"
)

func newKwokLoad() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Make pods use the resources of a workload, in lock-step",
		Long: `Make pods use the resources of a workload: a server sends each registered stress pod its next CPU and
memory target, and the stress pods apply them. Real pods run kwok/load/stresspod, which drives stress-ng;
for simulated pods a program sets the usage that metrics.k8s.io serves.`,
		Example: `  trainer kwok load serve --workload step --listen 127.0.0.1:30000
  trainer kwok load pods --server http://127.0.0.1:30000 --selector app=web
  curl -X POST http://127.0.0.1:30000/step                         # every pod has taken its target`,
	}
	cmd.AddCommand(newKwokLoadServe(), newKwokLoadPods())
	return cmd
}

func newKwokLoadServe() *cobra.Command {
	var c load.Config
	var kind, data, file, listen string
	var steps int
	var seed uint64
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Send each registered stress pod its targets, step by step",
		Long: `Serve targets: POST /step advances by one step and replies when every pod has applied its target,
POST /reset starts over, PUT /workloads replaces the workloads. With --every, the clock advances the steps,
from the first registration on. If ` + play.TokenVariable + ` is set, what changes something wants it as
bearer token.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			work, err := targets(kind, data, file, steps, interval, seed)
			if err != nil {
				return err
			}
			c.Token = os.Getenv(play.TokenVariable)
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() && c.Token == "" {
				return errors.Join(fmt.Errorf("--listen %s is beyond loopback: set %s to a token", listen, play.TokenVariable), l.Close())
			}
			s, err := load.NewServer(c, work)
			if err != nil {
				return errors.Join(err, l.Close())
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "targets of %d workloads at http://%s\n", len(work), l.Addr())
			srv := serve(l, s.Handler())
			s.Run(cmd.Context())
			return srv.Close()
		},
	}
	f := cmd.Flags()
	f.StringVar(&kind, "workload", "step", "type of a generated workload, for all pods")
	f.StringVar(&data, "data", "", "file or folder of a trace instead; pods get the workload with their name, all others the first")
	f.StringVar(&file, "targets", "", `JSON file instead: {"HOSTNAME": [{"ram": MiB, "cpu": millicores}]}; * is for all others`)
	f.IntVar(&steps, "steps", 1440, "steps of a generated workload")
	f.DurationVar(&interval, "step", time.Minute, "time between the workload's samples")
	f.Uint64Var(&seed, "seed", 0, "random seed of a generated workload")
	f.StringVar(&listen, "listen", "127.0.0.1:0", "address")
	f.StringVar(&c.PodURL, "pod-url", "", "URL of pods that register without a port; {hostname} is their name (default http://{hostname}.vpa.svc)")
	f.DurationVar(&c.Every, "every", 0, "interval of steps (default: only POST /step advances)")
	return cmd
}

// targets returns the workloads of pods.
func targets(kind, data, file string, steps int, interval time.Duration, seed uint64) (map[string][]load.Target, error) {
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var work map[string][]load.Target
		if err := json.Unmarshal(text, &work); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return work, nil
	}
	if data == "" {
		d := vpaDemo{kind: kind, steps: steps, seed: seed}
		d.demo.Step = interval
		used, err := d.usage()
		if err != nil {
			return nil, err
		}
		return map[string][]load.Target{load.All: load.TargetsOf(used)}, nil
	}
	all, _, err := workload.ReadFiles(data, "", workload.Grid{Interval: interval, MaxGap: time.Hour})
	if err != nil {
		return nil, err
	}
	work := map[string][]load.Target{load.All: load.TargetsOf(all[0].Usage)}
	for i := range all {
		work[all[i].ID] = load.TargetsOf(all[i].Usage)
	}
	return work, nil
}

func newKwokLoadPods() *cobra.Command {
	var o kwok.Options
	var c load.SimulatedConfig
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "pods",
		Short: "Act as the stress pods of simulated pods: write targets as usage to their annotations",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx := cmd.Context()
			if c.Server == "" || every <= 0 {
				return fmt.Errorf("--server is %q and --every %v, want a URL and more than 0", c.Server, every)
			}
			if c.Client, err = kwok.Connect(ctx, o); err != nil {
				return err
			}
			s, err := load.StartSimulated(c)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			ticker := time.NewTicker(every)
			defer ticker.Stop()
			for last := -1; ; {
				n, err := s.Sync(ctx)
				if err != nil && ctx.Err() == nil {
					fmt.Fprintln(cmd.ErrOrStderr(), "trainer:", err)
				}
				if n != last && ctx.Err() == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "%d pods run\n", n)
					last = n
				}
				select {
				case <-ctx.Done():
					return nil
				case <-ticker.C:
				}
			}
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Server, "server", "", "URL of the utilisation server")
	f.StringVar(&c.Namespace, "namespace", "default", "namespace of the pods")
	f.StringVar(&c.Selector, "selector", "", "label selector of the pods (default: all)")
	f.DurationVar(&every, "every", time.Second, "interval of listing the pods")
	apiserver.Flags(cmd, &o)
	return cmd
}
