package reproduce

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/gpu"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// gpuEnv is the environment whose models play the workloads of reproduce fgd.
const gpuEnv = "k8s/GPUPodScheduling-v0"

// reproduceModel plays the model at path on the reference's workload of a random seed, with the
// options of its training that a workload leaves open.
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

// printFGDModels prints for each list the curves of the models and of a heuristic, and their
// paired differences. Intervals are over models, each taken as its mean over the workloads, or
// with one model over the workloads.
func printFGDModels(cmd *cobra.Command, rows []fgdRow, heuristic string) error {
	w := cmd.OutOrStdout()
	for _, r := range rows {
		if r.models == 0 {
			continue
		}
		base := rowOf(rows, r.List, heuristic)
		if base == nil {
			return nil // its curve was not asked for
		}
		t := tracking.NewTable(">arrived %", ">"+r.Policy, ">"+heuristic, ">difference", ">95 % interval")
		for _, x := range curvePoints {
			if x >= len(base.Runs[0].Alloc) {
				break
			}
			d := allocDifferences(&r, base, x)
			e := tracking.StudentT(d)
			t.Append(fmt.Sprint(x), fmt.Sprintf("%.2f", meanAt(&r, x)), fmt.Sprintf("%.2f", meanAt(base, x)),
				fmt.Sprintf("%+.2f", e.Mean), cli.Interval(e.Low, e.High))
		}
		if _, err := fmt.Fprintf(w, "\n%s, %s against %s\n\n", r.List, r.Policy, heuristic); err != nil {
			return err
		}
		if err := t.WriteText(w); err != nil {
			return err
		}
	}
	return nil
}

func rowOf(rows []fgdRow, list, policy string) *fgdRow {
	for i := range rows {
		if rows[i].List == list && rows[i].Policy == policy {
			return &rows[i]
		}
	}
	return nil
}

func meanAt(r *fgdRow, x int) float64 {
	sum := 0.0
	for i := range r.Runs {
		sum += r.Runs[i].Alloc[x]
	}
	return sum / float64(len(r.Runs))
}

// allocDifferences returns at x percent what the models of row allocate more than base, workload by
// workload: the means of each model, or of one model every difference.
func allocDifferences(row, base *fgdRow, x int) []float64 {
	workloads := len(base.Runs)
	var d []float64
	for i := range row.Runs {
		d = append(d, row.Runs[i].Alloc[x]-base.Runs[i%workloads].Alloc[x])
	}
	if row.models == 1 {
		return d
	}
	var means []float64
	for k := range row.models {
		means = append(means, tracking.Mean(d[k*workloads:(k+1)*workloads]))
	}
	return means
}
