// Package reproduce holds the commands below `trainer reproduce`, which print published tables.
package reproduce

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/gang/planner"
	gangpublished "github.com/kubernasium/kubernasium/envs/gang/published"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/sample"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// New returns the command reproduce.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reproduce",
		Short: "Reproduce published results of earlier projects",
	}
	cmd.AddCommand(newReproduceGang(), newReproduceFGD(), newReproduceVPA(), newReproduceLRA())
	return cmd
}

func newReproduceGang() *cobra.Command {
	var dir string
	var c gangpublished.Case
	cmd := &cobra.Command{
		Use:   "gang",
		Short: "Reproduce the tables of Kube_Gang_Scheduling (E. Wang, 2021) and of its fork",
		Long: `Reproduce the tables of Kube_Gang_Scheduling (E. Wang, 2021) and of its fork.

Without --controller, the command recomputes every published row. With it, it runs one case, which mode,
window, lambda, penalty and steps select. Without the data set it runs on an embedded sample, for which
there are no published results.`,
		Example: `  trainer reproduce gang --data ../shared/data/gang
  trainer reproduce gang --mode forecast --controller dynamic_mpc --window 3 --lambda 1.02 --json
  trainer reproduce gang --mode actual --controller static --window 2 --penalty 45 --steps 800`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				var err error
				if dir, err = sample.Dir(cmd.Context(), cmd.ErrOrStderr(), "gang"); err != nil {
					return err
				}
			}
			var cases []gangpublished.Case
			if c.Controller != "" {
				cases = append(cases, c)
			} else {
				for _, name := range []string{"mode", "window", "lambda", "penalty", "steps"} {
					if cmd.Flags().Changed(name) {
						return errors.New("--" + name + " selects a single case and needs --controller")
					}
				}
			}
			results, err := cli.Computed(cmd.Context(), func() ([]gangpublished.Result, error) { return gangpublished.Reproduce(dir, cases...) })
			if err != nil {
				return err
			}
			t := tracking.NewTable("mode", "controller", ">window", ">lambda", ">penalty", ">steps", ">duration", ">checkpoints", ">total", ">published", ">relative error")
			for _, r := range results {
				published, relative := "", ""
				if r.Published != nil {
					published, relative = fmt.Sprintf("%.6f", *r.Published), fmt.Sprintf("%.1e", *r.RelativeError)
				}
				t.Append(r.Mode, r.Controller, fmt.Sprint(r.Window), fmt.Sprint(r.Lambda), fmt.Sprint(r.Penalty), fmt.Sprint(r.Steps),
					fmt.Sprintf("%.6f", r.Duration), fmt.Sprint(r.Checkpoints), fmt.Sprintf("%.6f", r.Total), published, relative)
			}
			return cli.Print(cmd, results, t.WriteText)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "data", "", "folder with profile, series, forecasts and published (default: gang in the data folder, or a sample)")
	f.StringVar(&c.Mode, "mode", gangpublished.ModeForecast, "the planner's input: forecast, actual or any")
	f.StringVar(&c.Controller, "controller", "", "static, dynamic_mpc, dynamic_window, exppo_static, one_time, equal_3000m, never_reconfigure_1000m or oracle_per_step_exact_minmax")
	f.IntVar(&c.Window, "window", planner.DefaultHorizon, "window of static, horizon of the dynamic controllers")
	f.Float64Var(&c.Lambda, "lambda", planner.DefaultLambda, "distrust of long windows of the dynamic controllers")
	f.Float64Var(&c.Penalty, "penalty", planner.DefaultPenalty, "duration of a reconfiguration in seconds")
	f.IntVar(&c.Steps, "steps", 400, "supersteps")
	return cmd
}
