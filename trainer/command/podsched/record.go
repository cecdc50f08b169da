package podsched

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// recordFlags holds the arguments of `podsched record`.
type recordFlags struct {
	env, model, policy, out string
	kwargs                  map[string]any
	seed                    uint64
}

func newPodschedRecord() *cobra.Command {
	var o recordFlags
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Write an episode of an environment as a recording of a cluster",
		Long: `Write an episode of an environment as a recording of a cluster, in the format of docs/cluster-trace.md: its
nodes and pods, with the times when a policy bound them and when they ended.`,
		Example: `  trainer podsched record --policy KubeDefault --env-kwargs lifetime:600 --env-kwargs steps:2000 --out episode.jsonl.zst
  trainer podsched record --env k8s/GPUPodScheduling-v0 --env-kwargs dynamics:timed --policy KubeDefault --out gpus.jsonl.zst`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.out == "":
				return errors.New("no file: give --out")
			case (o.model == "") == (o.policy == ""):
				return errors.New("want one of --model and --policy")
			}
			s, err := o.play(cmd.Context())
			if err != nil {
				return err
			}
			if err := o.write(s); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d nodes, %d pods, %v\n", o.out, len(s.Nodes), len(s.Pods), s.Now.Round(time.Second))
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.env, "env", "k8s/PodBalance-v0", "environment of pod scheduling")
	cli.KwargsVar(f, &o.kwargs, "env-kwargs", "option key:value of the environment (repeat)")
	f.StringVar(&o.policy, "policy", "", "baseline")
	f.StringVar(&o.model, "model", "", "model file")
	f.Uint64Var(&o.seed, "seed", play.CompareSeed, "random seed of the episode")
	f.StringVarP(&o.out, "out", "o", "", "file to write, *.jsonl.zst, *.jsonl.gz or *.jsonl; it must not exist")
	return cmd
}

// play plays the episode and returns the cluster at its end.
func (o *recordFlags) play(ctx context.Context) (*cluster.State, error) {
	v, err := envs.Make(o.env, 1, envs.VecOptions{Options: o.kwargs, Autoreset: envs.Disabled})
	if err != nil {
		return nil, err
	}
	defer v.Close()
	_, p, closePolicy, err := play.OpenPolicy(ctx, v, play.Config{Model: o.model, Baseline: o.policy, Seed: o.seed})
	if err != nil {
		return nil, err
	}
	defer closePolicy()
	if _, err := play.PlayEpisode(ctx, v, p, envs.VecResetOptions{Seed: &o.seed}, nil); err != nil {
		return nil, err
	}
	s := v.Env(0).State()
	if len(s.Nodes) == 0 {
		return nil, fmt.Errorf("%s has no nodes", o.env)
	}
	return s.Clone(), nil
}

// write writes the recording. After an error it leaves no file. The date is arbitrary but fixed, so that equal
// seeds give equal files.
func (o *recordFlags) write(s *cluster.State) error {
	w, err := clustertrace.Create(o.out, clustertrace.Header{Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Source: "trainer podsched record " + o.env})
	if err != nil {
		return err
	}
	if err := errors.Join(clustertrace.WriteState(w, s), w.Close(s.Now.Truncate(time.Millisecond))); err != nil {
		return errors.Join(err, os.Remove(o.out))
	}
	return nil
}
