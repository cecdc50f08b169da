package reproduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/gpu"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare/published"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// gpuEnv is the environment whose models play the workloads of reproduce fgd.
const gpuEnv = "k8s/GPUPodScheduling-v0"

// learned returns the policy of the models, or nil without models.
func learned(paths []string, ratio float64) (*published.Learned, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	l := &published.Learned{Models: len(paths), Play: func(ctx context.Context, model int, t *published.Trace, list *published.List, seed int64) (*gpushare.Run, error) {
		return reproduceModel(ctx, paths[model], t.NodeFile, list.File, seed, ratio)
	}}
	for _, path := range paths {
		f, err := models.ReadFile(path)
		if err != nil {
			return nil, err
		}
		l.Policy = cmp.Or(l.Policy, f.Meta.Algo)
		if l.Policy != f.Meta.Algo {
			return nil, fmt.Errorf("%s is of %s and %s of %s: the models of one table are one policy", paths[0], l.Policy, path, f.Meta.Algo)
		}
	}
	return l, nil
}

// reproduceModel plays the model at path on the reference's workload for a random seed. Options that a workload
// leaves open are those of the model's training.
func reproduceModel(ctx context.Context, path, nodeFile, podFile string, seed int64, ratio float64) (*gpushare.Run, error) {
	if ratio == 0 {
		return nil, errors.New("--model plays lists tuned to a --ratio above 0")
	}
	_, trained, err := play.EnvOf(gpuEnv, []string{path})
	if err != nil {
		return nil, err
	}
	v, err := envs.Make(gpuEnv, 1, envs.VecOptions{Autoreset: envs.Disabled, Options: cli.MergeKwargs(trained, map[string]any{
		"nodes": nodeFile, "pods": []string{podFile}, "reference_seed": int(seed), "load_end": ratio,
		"load_start": 0.0, "dynamics": gpu.DynamicsTimeFree,
	})})
	if err != nil {
		return nil, err
	}
	defer v.Close()
	m, err := play.ReadModelFor(path, v)
	if err != nil {
		return nil, err
	}
	defer m.Net.Close()
	if _, err := play.PlayEpisode(ctx, v, m, envs.VecResetOptions{}, nil); err != nil {
		return nil, err
	}
	run := v.Env(0).Task().(*gpu.Task).Run()
	run.Policy, run.Seed = play.ModelName(path, m.Meta.Algo, false), seed
	return run, nil
}

// curvePoints are the percents arrived of printFGDModels.
var curvePoints = []int{70, 75, 80, 85, 90, 95, 100, 105, 110, 115, 120, 125, 130}

// printFGDModels prints the curves of the models and of a heuristic for each list, and their paired
// differences. Intervals are over models, each with its mean over the workloads, or with a single model over
// the workloads.
func printFGDModels(w io.Writer, rows []published.Row, heuristic string) {
	for _, r := range rows {
		if r.Models == 0 {
			continue
		}
		base := rowOf(rows, r.List, heuristic)
		if base == nil {
			return // its curve was not requested
		}
		t := tracking.NewTable(">arrived %", ">"+r.Policy, ">"+heuristic, ">difference", ">95 % interval")
		for _, x := range curvePoints {
			if x >= len(base.Runs[0].Alloc) {
				break
			}
			e := tracking.StudentT(r.Differences(base, x))
			t.Append(fmt.Sprint(x), fmt.Sprintf("%.2f", tracking.Mean(r.Alloc(x))), fmt.Sprintf("%.2f", tracking.Mean(base.Alloc(x))),
				fmt.Sprintf("%+.2f", e.Mean), cli.Interval(e.Low, e.High, 2))
		}
		fmt.Fprintf(w, "\n%s, %s against %s\n\n", r.List, r.Policy, heuristic)
		t.WriteText(w)
	}
}

func rowOf(rows []published.Row, list, policy string) *published.Row {
	for i := range rows {
		if rows[i].List == list && rows[i].Policy == policy {
			return &rows[i]
		}
	}
	return nil
}
