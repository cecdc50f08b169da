package gang

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/bsp"
	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// gangResult is the JSON of `gang run`.
type gangResult struct {
	Policy string `json:"policy"`
	*bsp.Report
}

func newGangRun() *cobra.Command {
	var c play.Config
	var server kwok.Options
	var real executorFlags
	var log, replay string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a bulk-synchronous job as Kubernetes Jobs or as processes, re-planned by a model or a planner",
		Long: `Run an episode of ` + gangEnv + ` on a Kubernetes API server: each task of a superstep is a
batch/v1 Job whose pod has the share of the plan, the barrier is a watch on their completion, and a
re-planning does what the option penalty_model says: constant deletes all Jobs and creates them
again, per_task those whose shares change, resize resizes the pods in place. Time is KWOK's stepped
clock. It fails if the total by that clock is not the simulator's, and reports beside what each
re-planning costs in the episode what it took the API server on the wall.

Without --kubeconfig and ` + kwok.KubeconfigVariable + ` it starts a control plane of its own. One that is
named must run with --clock=stepped and have no other user: its clock is one for all.

With --executor local, and kubernetes with --real-time, each superstep is real work by the wall clock: stress-ng does the
workloads' operations, as many as the sizes of the episode say. All tasks start together; one that dies,
or is not at the barrier within --limit, ends the run with an error. Durations and re-plannings are
measured, and planners plan with the mean of what re-plannings have taken (--replan-cost). --log keeps all; --replay plays a log in the simulator and compares. On Kubernetes each task of
a superstep is a Job; they start as a pod group, or suspended until all are there. --simulate lets KWOK
play the pods by laws, on a control plane with a real clock; --image runs them on real nodes.`,
		Example: `  trainer gang run --baseline dynamic_mpc --env-kwargs steps:20
  trainer gang run --model logs/ppo/k8s-GangWindow-v0_1/best_model.safetensors --env-kwargs steps:20
  trainer gang run --baseline static_3 --env-kwargs steps:20 --env-kwargs penalty_model:resize --json
  trainer gang run --executor local --controller dynamic_mpc --workloads memcpy,vecmath --log run.jsonl --env-kwargs steps:20 \
    --env-kwargs profile:measured.csv --env-kwargs total_cpu_m:2000 --env-kwargs start_cpu_m:200
  trainer gang run --executor kubernetes --real-time --controller dynamic_mpc --workloads memcpy,vecmath --simulate laws.json \
    --env-kwargs profile:measured.csv --env-kwargs total_cpu_m:2000 --env-kwargs start_cpu_m:200 --env-kwargs steps:20
  trainer gang run --replay run.jsonl`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if replay != "" {
				if changed := cmd.Flags().NFlag(); changed > 1 && !(changed == 2 && cmd.Flags().Changed("json")) {
					return errors.New("--replay plays what the log says: want no other flag but --json")
				}
				r, err := gangReplay(cmd.Context(), replay)
				if err != nil {
					return err
				}
				return cli.Print(cmd, r, r.print)
			}
			if err := real.checkRun(cmd); err != nil {
				return err
			}
			if err := c.Check(); err != nil {
				return err
			}
			if c.Model == "" {
				c.Env = gangEnv
			}
			if real.name != "" && (real.realTime || real.name != kubernetesExecutor) {
				r, err := gangRunReal(cmd.Context(), c, real, server, log, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				return cli.Print(cmd, r, r.print)
			}
			res, err := gangRun(cmd.Context(), c, server, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			err = cli.Print(cmd, res, res.print)
			if err == nil && res.Difference != 0 {
				err = fmt.Errorf("the total by the clock, %v s, is not the simulator's %v s", res.Clock, res.Simulated)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Model, "model", "", "model file")
	f.StringVar(&c.Baseline, "baseline", "", "controller: a planner among the baselines of "+gangEnv+", or random (also --controller)")
	cli.KwargsVar(f, &c.EnvKwargs, "env-kwargs", "option key:value of the environment (repeat; default: the model's)")
	f.Uint64Var(&c.Seed, "seed", play.CompareSeed, "random seed of the episode")
	f.StringVar(&log, "log", "", "with --executor: file for the log of the run, with its measurements")
	f.StringVar(&replay, "replay", "", "play a log in the simulator")
	f.BoolVar(&real.realTime, "real-time", false, "with --executor kubernetes: run in real time, as local always does")
	f.StringVar(&real.replanCost, "replan-cost", measuredCost, "with --executor: the cost of a re-planning that planners assume: measured (the mean so far in this run) or modelled (the environment's cost)")
	real.add(cmd)
	apiserver.Flags(cmd, &server)
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "controller" {
			name = "baseline"
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}

// An episode is an environment to run and the policy that decides in it.
type episode struct {
	v      *envs.Vec
	opts   map[string]any // options of the environment
	name   string         // name of the policy
	policy agents.Policy
	close  func()
}

// openEpisode opens the environment and the policy. The caller closes them.
func openEpisode(ctx context.Context, c play.Config) (*episode, error) {
	spec, opts, err := c.PlayedEnv(ctx)
	if err != nil {
		return nil, err
	}
	if spec.ID != gangEnv {
		return nil, fmt.Errorf("the model is of %s, want one of %s", spec.ID, gangEnv)
	}
	v, err := envs.NewVec(spec, 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
	if err != nil {
		return nil, err
	}
	name, policy, closePolicy, err := play.OpenPolicy(ctx, v, c)
	if err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return &episode{v, opts, name, policy, func() { closePolicy(); v.Close() }}, nil
}

// gangRun plays the episode on an API server.
func gangRun(ctx context.Context, c play.Config, server kwok.Options, progress io.Writer) (*gangResult, error) {
	ep, err := openEpisode(ctx, c)
	if err != nil {
		return nil, err
	}
	defer ep.close()
	if server.Kubeconfig == "" && os.Getenv(kwok.KubeconfigVariable) == "" {
		p, err := apiserver.Start(ctx, launch.Options{Args: []string{"--clock=stepped"}})
		if err != nil {
			return nil, err
		}
		defer func() {
			if err := p.Stop(); err != nil {
				fmt.Fprintln(progress, err)
			}
		}()
		server.Kubeconfig = p.Kubeconfig
	}
	step := 0
	r, err := bsp.Play(ctx, server, ep.v, ep.policy.Act, c.Seed, func(s bsp.StepReport) {
		text := ""
		if s.Replan != nil {
			text = fmt.Sprintf(", after re-planning: %d tasks, %.3g s in the episode, %.3f s on the wall", s.Replan.Changed, s.Replan.Modelled, s.Replan.Wall)
		}
		fmt.Fprintf(progress, "superstep %d: %.3f s%s\n", step, s.Duration, text)
		step++
	})
	if err != nil {
		return nil, err
	}
	return &gangResult{ep.name, r}, nil
}

func (r *gangResult) print(w io.Writer) error {
	replannings, slowest := 0, 0.0
	for _, s := range r.Steps {
		if s.Replan != nil {
			replannings++
			slowest = max(slowest, s.Replan.Wall)
		}
	}
	t := tracking.NewTable(r.Policy+" on "+r.Env, ">value")
	t.Append("supersteps", fmt.Sprint(len(r.Steps)))
	t.Append("Jobs created", fmt.Sprint(r.Jobs))
	t.Append("total by the API server's clock", fmt.Sprintf("%.3f s", r.Clock))
	t.Append("total of the simulator", fmt.Sprintf("%.3f s", r.Simulated))
	t.Append("re-plannings, by "+string(r.Method), fmt.Sprint(replannings))
	t.Append("their cost in the episode", fmt.Sprintf("%.3f s", r.Modelled))
	t.Append("their time on the wall", fmt.Sprintf("%.3f s", r.ReplanWall))
	t.Append("the slowest of them", fmt.Sprintf("%.3f s", slowest))
	t.Append("total with that in place of the cost", fmt.Sprintf("%.3f s", r.Measured))
	t.Append("time of the run on the wall", fmt.Sprintf("%.1f s", r.Wall))
	return t.WriteText(w)
}
