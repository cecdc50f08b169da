package tune

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/run"
	sharedstudy "github.com/kubernasium/kubernasium/trainer/study"
)

// join opens the shared study in a file, or creates it.
func (t *tuner) join(file string, s study, lease time.Duration) error {
	if lease <= 0 {
		return fmt.Errorf("--lease %v, want above 0", lease)
	}
	space, err := parseSearchSpace("search space", []byte(s.Space))
	if err != nil {
		return err
	}
	params := make([]map[string]any, s.Trials)
	for trial := range params {
		if params[trial], err = s.params(space, trial); err != nil {
			return err
		}
	}
	t.folder = file + ".trials"
	if err := models.MkdirAll(t.folder); err != nil {
		return err
	}
	t.journal = &journal[study, rungResult]{study: s}
	t.shared, err = sharedstudy.Open(file, s.Algo+" "+s.Env, s, params, lease)
	return err
}

// sharedRung trains trials up to a rung, together with other processes, and returns the promoted ones. It
// returns when all have a result.
func (t *tuner) sharedRung(ctx context.Context, trials []int, rung, steps int) ([]int, error) {
	items := make([]sharedstudy.Item, len(trials))
	for i, trial := range trials {
		items[i] = sharedstudy.Item{Trial: trial, Rung: rung}
	}
	err := t.shared.Work(ctx, items, t.jobs, func(ctx context.Context, it sharedstudy.Item) (sharedstudy.Outcome, error) {
		out, err := t.train(ctx, it.Trial, rung, steps)
		value := &out.Mean
		if out.Error != "" {
			value = nil
		}
		return sharedstudy.Outcome{Result: out, Step: out.Timesteps, Value: value}, err
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, cli.ErrInterrupted
		}
		return nil, err
	}
	results := make([]rungResult, len(items))
	for i, it := range items {
		if ok, err := t.shared.Result(it, &results[i]); err != nil || !ok {
			return nil, fmt.Errorf("trial %d at rung %d: a result %v, %w", it.Trial, it.Rung, ok, err)
		}
	}
	t.results = append(t.results, results...)
	promoted := promote(results, t.study.Reduction)
	if err := t.endTrials(results, promoted, rung); err != nil {
		return nil, err
	}
	if len(promoted) == 0 {
		return nil, fmt.Errorf("all trials failed, the first with: %s", results[0].Error)
	}
	return promoted, nil
}

// endTrials records for Optuna which trials ended at a rung.
func (t *tuner) endTrials(results []rungResult, promoted []int, rung int) error {
	for _, r := range results {
		var err error
		switch {
		case r.Error != "":
			err = t.shared.End(r.Trial, sharedstudy.Failed, nil)
		case rung == len(t.study.Rungs)-1:
			err = t.shared.End(r.Trial, sharedstudy.Complete, &r.Mean)
		case !slices.Contains(promoted, r.Trial):
			err = t.shared.End(r.Trial, sharedstudy.Pruned, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// attempt gives a training a separate folder, so that a process whose trial another has taken over does not
// disturb it. Above rung 0 it resumes from a copy of the previous rung's result.
func (t *tuner) attempt(c *run.Config, out *rungResult) error {
	parent := filepath.Join(t.folder, fmt.Sprintf("trial_%d", out.Trial))
	if err := models.MkdirAll(parent); err != nil {
		return err
	}
	folder, err := run.NewFolder(parent, fmt.Sprintf("rung_%d_%s", out.Rung, t.shared.Worker()))
	if err != nil {
		return err
	}
	if out.Folder, err = filepath.Rel(t.folder, folder); err != nil {
		return err
	}
	c.Folder = folder
	if out.Rung == 0 {
		return nil
	}
	var before rungResult
	if ok, err := t.shared.Result(sharedstudy.Item{Trial: out.Trial, Rung: out.Rung - 1}, &before); err != nil || !ok {
		return fmt.Errorf("the rung before has a result: %v, %w", ok, err)
	}
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(t.folder, before.Folder))); err != nil {
		return err
	}
	c.Resume = filepath.Join(folder, run.EnvName(t.study.Env)+models.Ext)
	return nil
}
