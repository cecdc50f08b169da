package gang

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/bsp"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// realResult is the JSON of a `gang run` in real time, and of its replay.
type realResult struct {
	*bsp.RealReport
	Log    string `json:"log,omitempty"`
	replay bool
}

// gangRunReal plays the episode on an executor.
func gangRunReal(ctx context.Context, c play.Config, o executorFlags, server kwok.Options, path string, progress io.Writer) (_ *realResult, err error) {
	works, err := bsp.ParseWorks(o.workloads)
	if err != nil {
		return nil, err
	}
	ep, err := openEpisode(ctx, c)
	if err != nil {
		return nil, err
	}
	defer ep.close()
	e, err := o.open(ctx, server, progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	fmt.Fprintln(progress, "executing:", e.Setting())
	conf := bsp.RealConfig{
		Executor: e, Works: works, Limit: o.limit, Act: ep.policy.Act, Policy: ep.name, Kwargs: ep.opts, Seed: c.Seed,
		ModelledCost: o.replanCost == modelledCost, Done: func(s bsp.RealStep) {
			text := ""
			if s.Replanned {
				text = fmt.Sprintf(", after re-planning: %d tasks in %.3f s", s.Changed, s.Replan)
			}
			fmt.Fprintf(progress, "superstep %d: %.3f s%s\n", s.Step, s.Duration(), text)
		},
	}
	if path != "" {
		f, err := os.Create(path)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		conf.Log = f
	}
	r, err := bsp.PlayReal(ctx, conf, ep.v)
	if err != nil {
		return nil, err
	}
	return &realResult{r, path, false}, nil
}

// gangReplay plays a log in the simulator.
func gangReplay(ctx context.Context, path string) (*realResult, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l, err := bsp.ReadLog(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if l.Env != gangEnv {
		return nil, fmt.Errorf("%s is of %s, want one of %s", path, l.Env, gangEnv)
	}
	v, err := envs.Make(l.Env, 1, envs.VecOptions{Options: l.Kwargs, Autoreset: envs.Disabled})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer v.Close()
	r, err := bsp.Replay(ctx, l, v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &realResult{r, path, true}, nil
}

func (r *realResult) print(w io.Writer) error {
	replannings := 0
	for _, s := range r.Steps {
		if s.Replanned {
			replannings++
		}
	}
	t := tracking.NewTable(r.Policy+" on "+r.Setting, ">value")
	t.Append("supersteps", fmt.Sprint(len(r.Steps)))
	t.Append("their durations", fmt.Sprintf("%.3f s", r.Duration))
	t.Append("re-plannings, by "+string(r.Method), fmt.Sprint(replannings))
	t.Append("their time", fmt.Sprintf("%.3f s", r.Replan))
	t.Append("cost of one that planners expected at last", fmt.Sprintf("%.3f s", r.Expected))
	t.Append("time of the decisions", fmt.Sprintf("%.3f s", r.Planning))
	t.Append("total", fmt.Sprintf("%.3f s", r.Total))
	t.Append("total of the simulator, with its cost of re-planning", fmt.Sprintf("%.3f s", r.Model))
	t.Append("RMS of log measured over modelled duration of a task", fmt.Sprintf("%.3f", r.RMS))
	t.WriteText(w)
	if r.Log != "" && !r.replay {
		fmt.Fprintf(w, "\n%s is written; the simulator plays it: trainer gang run --replay %s\n", r.Log, r.Log)
	}
	return nil
}
