package podsched

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/gpu"
	"github.com/kubernasium/kubernasium/envs/podsched/gpuworkload"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// pooledResult is the JSON of `podsched pooled`.
type pooledResult struct {
	Env       string         `json:"env"`
	EnvKwargs map[string]any `json:"env_kwargs"`
	Seed      uint64         `json:"seed"`
	Episodes  int            `json:"episodes"`
	WaitingS  float64        `json:"waiting_time_s"`
}

func newPodschedPooled() *cobra.Command {
	res := pooledResult{Env: "k8s/GPUPodScheduling-v2", Episodes: 40, Seed: play.CompareSeed}
	var given map[string]any
	cmd := &cobra.Command{
		Use:   "pooled",
		Short: "Tell how long pods would wait if the nodes of each GPU model were one",
		Long: `Tell how long pods would wait if the nodes of each GPU model were one.

The episodes are those of ` + "`trainer compare`" + ` with the same options and seed, in timed dynamics. Pods that are not bound to
models take nothing and never wait; the others wait in the order of arrival. What placements can save at most is about the difference to
this wait.`,
		Example: `  trainer podsched pooled
  trainer podsched pooled --env-kwargs split:train --seed 50000 --episodes 200`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given["dynamics"] = cmp.Or(given["dynamics"], any(gpu.DynamicsTimed))
			if given["dynamics"] != gpu.DynamicsTimed {
				return fmt.Errorf("--env-kwargs dynamics:%v, want %s, in which pods wait", given["dynamics"], gpu.DynamicsTimed)
			}
			if res.Episodes < 1 {
				return fmt.Errorf("--episodes %d, want at least 1", res.Episodes)
			}
			if err := play.CheckSeed(res.Seed, res.Episodes); err != nil {
				return err
			}
			if err := res.run(cmd, given); err != nil {
				return err
			}
			return cli.Printf(cmd, res, "%d episodes: pods would wait %.2f s in the mean\n", res.Episodes, res.WaitingS)
		},
	}
	f := cmd.Flags()
	f.StringVar(&res.Env, "env", res.Env, "id of the environment of GPU scheduling")
	cli.KwargsVar(f, &given, "env-kwargs", "option key:value of the environment (repeat)")
	f.Uint64Var(&res.Seed, "seed", res.Seed, "random seed of the first episode")
	f.IntVar(&res.Episodes, "episodes", res.Episodes, "number of episodes")
	return cmd
}

// run resets one environment to each episode in turn.
func (r *pooledResult) run(cmd *cobra.Command, given map[string]any) error {
	spec, err := envs.Lookup(r.Env)
	if err != nil {
		return err
	}
	r.EnvKwargs = play.HeldOut(spec, nil, given)
	v, err := envs.Make(r.Env, 1, envs.VecOptions{Options: r.EnvKwargs})
	if err != nil {
		return err
	}
	defer v.Close()
	task, ok := v.Env(0).Task().(*gpu.Task)
	if !ok {
		return fmt.Errorf("--env %s is no environment of GPU scheduling", r.Env)
	}
	waits := make([]float64, r.Episodes)
	for i := range waits {
		if _, err := v.Reset(cmd.Context(), envs.VecResetOptions{Seed: new(r.Seed + uint64(i))}); err != nil {
			return err
		}
		s := task.RolloutState()
		waits[i] = gpuworkload.PooledWait(s.Inventory, s.Catalogue, s.Instance.Arrivals, len(s.Instance.Running))
	}
	r.WaitingS = stat.Mean(waits, nil)
	return nil
}
