package kwok

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
)

func newKwokParity() *cobra.Command {
	var c kwok.ParityConfig
	cmd := &cobra.Command{
		Use:   "parity",
		Short: "Play the same actions in memory and on an API server, and report any difference",
		Long: `Play the same actions in memory and on an API server, and report any difference in state,
observation, mask, reward, end or info. A difference is an error. Actions are random permitted ones.

The control plane is that of --kubeconfig or of ` + kwok.KubeconfigVariable + `; ` + "`trainer kwok up`" + ` starts one.`,
		Example: `  trainer kwok parity --env k8s/PodBalance-v0 --episodes 3
  trainer kwok parity --env k8s/GangWindow-v0 --env-kwargs penalty_model:resize --kubeconfig FILE`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := play.CheckSeed(c.Seed, c.Episodes); err != nil {
				return err
			}
			r, ended := kwok.Parity(cmd.Context(), c)
			if ended != nil && (cmd.Context().Err() == nil || r == nil) {
				return ended
			}
			err := cli.Print(cmd, r, func(w io.Writer) error { return printParity(w, r) })
			if err == nil && ended != nil {
				err = fmt.Errorf("%w: %d of %d episodes are compared; the same command starts over, and --seed %d plays those that are missing", cli.ErrInterrupted, r.Episodes, c.Episodes, c.Seed+uint64(r.Episodes))
			}
			if err == nil && len(r.Differences) > 0 {
				err = fmt.Errorf("%s differs from %s", r.Twin, r.Env)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Env, "env", "", "environment, or its twin")
	f.IntVar(&c.Episodes, "episodes", 3, "episodes, with seeds from --seed on")
	f.IntVar(&c.Decisions, "decisions", 50, "maximum decisions of an episode")
	f.Uint64Var(&c.Seed, "seed", 0, "random seed")
	cli.KwargsVar(f, &c.Options, "env-kwargs", "option key:value of the environment (repeat)")
	apiserver.Flags(cmd, &c.Server)
	_ = cmd.MarkFlagRequired("env") // the flag exists
	return cmd
}

func printParity(w io.Writer, r *kwok.ParityReport) error {
	for _, d := range r.Differences {
		fmt.Fprintf(w, "episode %d, decision %d: %s differs:\n%s\n", d.Episode, d.Decision, d.What, d.Detail)
	}
	_, err := fmt.Fprintf(w, "%s and %s: %d episodes, %d decisions, %d pods, %d differences; %.1f s on the API server\n",
		r.Env, r.Twin, r.Episodes, r.Decisions, r.Pods, len(r.Differences), r.Seconds)
	return err
}
