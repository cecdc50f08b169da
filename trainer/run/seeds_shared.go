package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/study"
)

// SharedSeeds selects the journal that processes share to train with the same seeds.
type SharedSeeds struct {
	File  string        // path; empty: none
	Lease time.Duration // after which other processes take over the seeds of a silent process
}

// sharedSeed is the result of a seed in the journal.
type sharedSeed struct {
	SeedResult
	Best  string       `json:"best"`
	Curve []Evaluation `json:"curve"`
}

// seedsSpec holds everything that determines the results of seeds.
type seedsSpec struct {
	Settings
	Params map[string]any `json:"params"`
	Seeds  []uint64       `json:"seeds"`
}

// trainShared trains with the seeds that no other process has claimed, and returns the results of all. An
// interrupted process releases its seeds; others resume from their newest checkpoints.
func (c Config) trainShared(ctx context.Context, spec *envs.Spec, seeds []uint64, jobs int, out io.Writer) (*SeedsResult, error) {
	begun := time.Now()
	values, err := c.Params.Values()
	if err != nil {
		return nil, err
	}
	folder, params := c.Shared.File+".seeds", make([]map[string]any, len(seeds))
	if err := models.MkdirAll(folder); err != nil {
		return nil, err
	}
	items := make([]study.Item, len(seeds))
	for i, seed := range seeds {
		items[i], params[i] = study.Item{Trial: i}, map[string]any{"seed": float64(seed)}
	}
	s, err := study.Open(c.Shared.File, c.Algo+" "+c.Env, seedsSpec{c.settings(), values, seeds}, params, c.Shared.Lease)
	if err != nil {
		return nil, err
	}
	err = s.Work(ctx, items, jobs, func(running context.Context, it study.Item) (study.Outcome, error) {
		seed := seeds[it.Trial]
		return c.trainSharedSeed(running, ctx, spec, seed, filepath.Join(folder, fmt.Sprintf("seed_%d", seed)), s.Worker(), out)
	})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w; other processes go on, and the same command joins them again", cli.ErrInterrupted)
	} else if err != nil {
		return nil, err
	}
	res := &SeedsResult{Algo: c.Algo, Env: spec.ID, Folder: folder, Seeds: make([]SeedResult, len(seeds))}
	for i, it := range items {
		var r sharedSeed
		if ok, err := s.Result(it, &r); err != nil || !ok {
			return nil, fmt.Errorf("seed %d: a result %v, %w", seeds[i], ok, err)
		}
		res.Seeds[i] = r.SeedResult
		res.Seeds[i].Best, res.Seeds[i].curve = r.Best, r.Curve
		state, value := study.Complete, &r.EvalMean
		if r.Error != "" {
			res.Seeds[i].Err, state, value = errors.New(r.Error), study.Failed, nil
		}
		if err := s.End(i, state, value); err != nil {
			return nil, err
		}
	}
	res.Seconds = time.Since(begun).Seconds()
	res.estimate()
	return res, res.write()
}

// trainSharedSeed trains with a claimed seed, in the worker's folder below parent.
func (c Config) trainSharedSeed(ctx, command context.Context, spec *envs.Spec, seed uint64, parent, worker string, out io.Writer) (study.Outcome, error) {
	c.Seed, c.Quiet = seed, true
	if err := c.attemptSeed(parent, worker); err != nil {
		return study.Outcome{}, err
	}
	r, err := trainSeed(ctx, command, spec, c, out)
	if err == nil {
		err = ctx.Err()
	}
	value := &r.EvalMean
	if r.Err != nil {
		value = nil
	}
	return study.Outcome{Result: sharedSeed{r, r.Best, r.curve}, Step: r.Timesteps, Value: value}, err
}

// attemptSeed gives a training a separate folder below parent. It resumes from a copy of the latest attempt
// that has a checkpoint.
func (c *Config) attemptSeed(parent, worker string) error {
	if err := models.MkdirAll(parent); err != nil {
		return err
	}
	before, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	if c.Folder, err = NewFolder(parent, worker); err != nil {
		return err
	}
	var latest time.Time
	from := ""
	for _, e := range before {
		if strings.HasPrefix(e.Name(), ".") { // an incomplete copy
			continue
		}
		checkpoint, err := newestCheckpoint(filepath.Join(parent, e.Name()), c.Env)
		if err != nil {
			return err
		}
		if checkpoint == "" {
			continue
		}
		info, err := os.Stat(checkpoint)
		if err != nil {
			return err
		}
		if info.ModTime().After(latest) {
			latest, from = info.ModTime(), filepath.Join(parent, e.Name())
		}
	}
	if from == "" {
		return nil
	}
	copied := filepath.Join(parent, "."+filepath.Base(c.Folder)) // hidden until it is whole
	if err := errors.Join(os.CopyFS(copied, os.DirFS(from)), os.Remove(c.Folder)); err != nil {
		return err
	}
	if err := os.Rename(copied, c.Folder); err != nil {
		return err
	}
	c.Resume, err = newestCheckpoint(c.Folder, c.Env)
	return err
}
