package lra

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/metis"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/world"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// lraTraining is a method of training for the best placement of one batch.
type lraTraining struct {
	name, doc, long string
	config          metis.Config
	episodes        int
	env             string
	options         map[string]any
	high            bool // it distributes containers to sub-clusters, which a sub-scheduler fills
}

var lraTrainings = []lraTraining{
	{"train-high", "Metis: learn to divide a batch among sub-clusters, which sub-schedulers fill",
		"The result is the best placement seen: of demonstrations, of exploration, and of what is learned\nfrom both and from the best trajectories again.",
		metis.High(), 3000, "k8s/LRAHierarchical-v0", nil, true},
	{"vanilla", "Vanilla policy gradient: learn to choose among all nodes", "One network, no demonstrations, no replay.",
		metis.Vanilla(), 2000, "k8s/LRAPlacement-v0", map[string]any{"reward": world.RewardTerminal}, false},
	{"dc", "Divide and conquer: learn to choose among three at a time, down to the node", "Replay of the best trajectories, no sub-schedulers.",
		metis.DivideAndConquer(), 2000, "k8s/LRASubcluster-v0", map[string]any{"reward": world.RewardTerminal}, false},
}

// lraTrainFlags holds the flags of a training on one batch.
type lraTrainFlags struct {
	lraFlags
	sub      string
	episodes int
	budget   time.Duration
	config   metis.Config
}

func newLRATrain(how lraTraining) *cobra.Command {
	o := lraTrainFlags{config: how.config}
	cmd := &cobra.Command{
		Use: how.name, Short: how.doc, Long: how.doc + ".\n\n" + how.long,
		Example: "  trainer lra " + how.name + " --batch-set-size 200 --batch-choice 0 --verbose --out logs/lra",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.episodes < 1 || o.budget <= 0 {
				return fmt.Errorf("--episodes %d, --budget %v: want at least 1, and more than 0s", o.episodes, o.budget)
			}
			r, err := o.train(cmd.Context(), how)
			if err != nil {
				return err
			}
			if err := r.report(cmd, &o.lraFlags); err != nil {
				return err
			}
			return o.interrupted(cmd.Context(), r)
		},
	}
	o.add(cmd)
	f := cmd.Flags()
	if how.high {
		f.StringVar(&o.sub, "subscheduler", "", "sub-scheduler: an .npz file of published networks, a .safetensors model of train-sub, or a baseline by name (default: the published networks in --data, or greedy)")
	}
	f.IntVar(&o.episodes, "episodes", how.episodes, "episodes to play")
	f.DurationVar(&o.budget, "budget", 10*time.Minute, "time after which no further update starts")
	f.Float64Var(&o.config.LearningRate, "learning-rate", how.config.LearningRate, "of Adam")
	f.Float64Var(&o.config.EntCoef, "ent-coef", how.config.EntCoef, "weight of the entropy bonus")
	f.IntVar(&o.config.Demonstrations, "demonstrations", how.config.Demonstrations, "number of first episodes, which a heuristic plays")
	f.Float64Var(&o.config.Explore, "explore", how.config.Explore, "fraction of the steps at which the policy decides; the others repeat the best episode")
	f.BoolVar(&o.config.Replay, "replay", how.config.Replay, "learn from the best trajectories again")
	return cmd
}

// interrupted returns an error if ctx ended the training before its episodes and its time budget ended.
func (o *lraTrainFlags) interrupted(ctx context.Context, r *lraResult) error {
	if ctx.Err() == nil || r.Episodes >= o.episodes {
		return nil
	}
	kept := "--out would have kept the model"
	if o.out != "" {
		kept = "the model is in " + o.out
	}
	return fmt.Errorf("%w after %d of %d episodes: the best placement until then is reported, and %s; the same command starts over", cli.ErrInterrupted, r.Episodes, o.episodes, kept)
}

// lraPoint is an update in a training's log.
type lraPoint struct {
	Episodes int     `json:"episodes"`
	Mean     float64 `json:"mean"` // mean throughput of the episodes since the last update
	Best     float64 `json:"best"` // best throughput so far
}

// options returns the environment's options for the flags.
func (o *lraTrainFlags) options(how lraTraining, nodes int) (map[string]any, error) {
	kwargs := map[string]any{"nodes": nodes, "batch": o.choice}
	table, err := o.nodeTable()
	if err != nil {
		return nil, err
	}
	_, batches, err := o.batchSet()
	if err != nil {
		return nil, err
	}
	kwargs["table"], kwargs["batches"] = table, batches
	if how.high {
		if kwargs["subscheduler"], err = o.subscheduler(); err != nil {
			return nil, err
		}
	}
	return cli.MergeKwargs(kwargs, how.options), nil
}

// subscheduler returns the sub-scheduler: the given one, or the published networks, which the artefact does not
// contain, or else greedy.
func (o *lraTrainFlags) subscheduler() (string, error) {
	path, err := o.file(o.sub, "metis_subscheduler_weights.npz")
	if err != nil || o.sub != "" {
		return path, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		_, err := fmt.Fprintf(o.cmd.ErrOrStderr(), "no %s: greedy fills the sub-clusters\n", path)
		return "greedy", err
	}
	return path, nil
}

// updateEpisodes is the number of episodes per update.
const updateEpisodes = 10

// train trains on the selected batch, with rewards from the plan table.
func (o *lraTrainFlags) train(ctx context.Context, how lraTraining) (*lraResult, error) {
	plan, score, constraints, err := o.load()
	if err != nil {
		return nil, err
	}
	kwargs, err := o.options(how, len(plan.Class))
	if err != nil {
		return nil, err
	}
	start := time.Now()
	v, err := envs.Make(how.env, updateEpisodes, envs.VecOptions{Options: kwargs, Autoreset: envs.Disabled})
	if err != nil {
		return nil, err
	}
	defer v.Close()
	l, net, err := o.learner(v, how, kwargs)
	if err != nil {
		return nil, err
	}
	defer net.Close()
	var best planner.Placement
	var curve []lraPoint
	better := func(env int, _ float64) {
		best = append(best[:0], v.Env(env).Task().(interface{ Placement() planner.Placement }).Placement()...)
	}
	err = l.Run(ctx, v, o.episodes, o.budget, better, func(episodes int, mean, best float64) {
		curve = append(curve, lraPoint{episodes, mean, best})
	})
	if err != nil {
		return nil, err
	}
	if best == nil { // ctx ended before the first update
		return nil, fmt.Errorf("no episode was played: %w", context.Cause(ctx))
	}
	r, err := newLRAResult(how.name, plan, score, constraints, best, time.Since(start))
	if err != nil {
		return nil, err
	}
	r.Episodes, r.Curve = curve[len(curve)-1].Episodes, curve
	r.model = l.Save
	return r, nil
}

// learner makes the learner and its network.
func (o *lraTrainFlags) learner(v *envs.Vec, how lraTraining, kwargs map[string]any) (*metis.Learner, play.Network, error) {
	obs, act := v.Spaces()
	spec, err := o.config.Network.ActorCritic(obs, act)
	if err != nil {
		return nil, nil, err
	}
	net, err := play.NewNetwork(play.EngineFused, spec, rand.New(pcg.New(o.seed^play.NetworkStream)))
	if err != nil {
		return nil, nil, err
	}
	var demo metis.Demonstrator
	if how.high {
		demo = metis.EqualSplit(obs, o.seed)
	} else if o.config.Demonstrations > 0 {
		return nil, nil, fmt.Errorf("--demonstrations of %s, whose heuristic is that of sub-clusters", how.name)
	}
	env := agents.EnvInfo{ID: how.env, Kwargs: kwargs, Obs: obs, Act: act, NumEnvs: updateEpisodes}
	l, err := metis.New(o.config, env, spec, agents.Given(net), demo, o.seed)
	return l, net, err
}

// writeTraining writes the model and the learning curve.
func (r *lraResult) writeTraining(dir string) error {
	if err := models.WriteFileAtomic(filepath.Join(dir, "model.safetensors"), func(w io.Writer) error { return r.model(w) }); err != nil {
		return err
	}
	rows := make([][]string, len(r.Curve))
	mean, best := tracking.Series{Name: "mean of an update"}, tracking.Series{Name: "best so far"}
	for i, p := range r.Curve {
		rows[i] = []string{strconv.Itoa(p.Episodes), fmt.Sprintf("%.6f", p.Mean), fmt.Sprintf("%.6f", p.Best)}
		mean.Steps, mean.Mean = append(mean.Steps, int64(p.Episodes)), append(mean.Mean, p.Mean)
		best.Steps, best.Mean = append(best.Steps, int64(p.Episodes)), append(best.Mean, p.Best)
	}
	if err := cli.WriteCSV(filepath.Join(dir, "curve.csv"), []string{"episodes", "mean", "best"}, rows); err != nil {
		return err
	}
	for _, s := range []*tracking.Series{&mean, &best} {
		s.Low, s.High = s.Mean, s.Mean
	}
	return tracking.Curves(filepath.Join(dir, "learning_curve.png"), fmt.Sprintf("%s, %d containers on %d nodes", r.Method, r.Batch.Total(), r.Nodes),
		"episodes", "throughput of a container", []tracking.Series{mean, best}, []tracking.HLine{{Name: "linear bound", Value: r.Bound}})
}
