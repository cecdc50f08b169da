package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// The layout of a log folder is RL Zoo's: <log-folder>/<algo>/<env>_<k>/, with the best and the last model,
// checkpoints, and the logs of package tracking.

// EnvName converts the id of an environment to a file name.
func EnvName(id string) string { return strings.ReplaceAll(id, "/", "-") }

func (r *Run) path(name string) string { return filepath.Join(r.Folder, name) }

// BestModel returns the path of the model with the best evaluation.
func (r *Run) BestModel() string { return r.path("best_model.safetensors") }

// LastModel returns the path of the model at the training's end.
func (r *Run) LastModel() string { return r.path(EnvName(r.spec.ID) + models.Ext) }

func (r *Run) checkpointPath(step int) string {
	return r.path(fmt.Sprintf("rl_model_%d_steps.safetensors", step))
}

// Tensors that the trainer adds to a checkpoint, for resuming.
const (
	envsTensor    = models.StatePrefix + "envs"
	serversTensor = models.StatePrefix + "server_envs" // state of servers' environments
	returnsTensor = models.StatePrefix + "ep_returns"
	lengthsTensor = models.StatePrefix + "ep_lengths"
)

// openFolder creates a new log folder, or opens the checkpoint's.
func (r *Run) openFolder(ctx context.Context) error {
	if r.Resume != "" {
		r.Folder = filepath.Dir(r.Resume)
		return r.openResumed(ctx)
	}
	var err error
	if r.Folder == "" {
		r.Folder, err = NewFolder(filepath.Join(r.LogFolder, r.Algo), EnvName(r.spec.ID))
	} else {
		err = models.MkdirAll(r.Folder)
	}
	if err == nil {
		err = models.SweepTemporary(r.Folder)
	}
	if err != nil {
		return err
	}
	if r.logs, err = openLogs(r.Folder, r.spec.ID, tracking.NewRun); err != nil {
		return err
	}
	return r.writeConfig(r.Folder, nil, 0)
}

// openResumed restores the learner, the logs and the folder's files from the checkpoint.
func (r *Run) openResumed(ctx context.Context) error {
	f, err := models.ReadFile(r.Resume)
	if err != nil {
		return err
	}
	if err := r.checkReplayBuffer(f); err != nil {
		return err
	}
	var buf bytes.Buffer
	if err := models.Write(&buf, f); err != nil {
		return err
	}
	if err := r.Learner.Load(&buf); err != nil {
		return fmt.Errorf("resume %s: %w", r.Resume, err)
	}
	r.First, r.saved = r.Learner.NumTimesteps(), r.Resume
	if r.best, r.Curve, err = readEvaluations(r.path("evaluations.csv"), r.First); err != nil {
		return err
	}
	if err := r.loadServers(ctx, f); err != nil {
		return err
	}
	for _, c := range r.changes {
		r.warn("resume %s: %s", r.Resume, c)
	}
	if err := r.supersede(); err != nil {
		return err
	}
	r.solved = r.Threshold != nil && r.best >= *r.Threshold
	if r.logs, err = openLogs(r.Folder, r.spec.ID, int64(r.First)); err != nil {
		return err
	}
	return r.writeConfig(r.Folder, nil, r.First)
}

// NewFolder creates parent/<name>_<k> for the smallest unused k, from 1. The folder survives a power loss.
func NewFolder(parent, name string) (string, error) {
	if err := models.MkdirAll(parent); err != nil {
		return "", err
	}
	for k := 1; ; k++ {
		dir := filepath.Join(parent, fmt.Sprintf("%s_%d", name, k))
		if err := os.Mkdir(dir, 0o755); !errors.Is(err, fs.ErrExist) {
			if err == nil {
				err = models.SyncDir(parent)
			}
			return dir, err
		}
	}
}

// save writes a checkpoint with the learner, the environments and the running means.
func (r *Run) save(path string) error {
	if err := r.write(path, r.Learner.Save); err != nil {
		return err
	}
	r.saved = path
	return nil
}

// saveBest writes the best model. It is only for playing, so it has no replay buffer.
func (r *Run) saveBest() error {
	if l, ok := r.Learner.Learner.(interface{ SaveWithoutReplayBuffer(io.Writer) error }); ok {
		return r.write(r.BestModel(), l.SaveWithoutReplayBuffer)
	}
	return r.save(r.BestModel())
}

// write writes the file that save produces, and adds the state of the training for resuming.
func (r *Run) write(path string, save func(io.Writer) error) error {
	var buf bytes.Buffer
	if err := save(&buf); err != nil {
		return err
	}
	f, err := models.Read(&buf)
	if err != nil {
		return err
	}
	if err := checkParams(f, r.Learner.NumTimesteps()); err != nil {
		return err
	}
	if err := r.putEnvs(&f); err != nil {
		return err
	}
	f.Put(
		safetensors.Tensor{Name: returnsTensor, Shape: []int{len(r.Episodes.returns)}, Data: r.Episodes.returns},
		safetensors.Tensor{Name: lengthsTensor, Shape: []int{len(r.Episodes.lengths)}, Data: r.Episodes.lengths},
	)
	if err := r.putTraining(&f); err != nil {
		return err
	}
	if err := models.WriteFile(path, f); err != nil {
		return err
	}
	if size := replay.CompressedBytes(f); size > 0 && !r.printedSize {
		r.printedSize = true
		r.say("%s: its replay buffer takes %.1f MB; --params checkpoint_replay_buffer:false leaves it out, and then no resumed training is exact", path, float64(size)/1e6)
	}
	return nil
}

// putEnvs adds the state of the environments. If servers return none, a resumed training is not exact.
func (r *Run) putEnvs(f *models.File) error {
	switch v := r.v.(type) {
	case *envs.Vec:
		snapshot, err := v.Snapshot()
		if err != nil {
			return err
		}
		f.Put(safetensors.Tensor{Name: envsTensor, Shape: []int{len(snapshot)}, Data: snapshot})
	case play.Saver:
		ctx, cancel := context.WithTimeout(context.Background(), stateWithin)
		defer cancel()
		state, err := v.State(ctx)
		if err == nil {
			f.Put(safetensors.Tensor{Name: serversTensor, Shape: []int{len(state)}, Data: state})
		} else if !r.stateless {
			r.stateless = true
			r.say("the checkpoints lack the servers' environments, so that new episodes begin when the training is resumed: %v", err)
		}
	}
	return nil
}

// stateWithin limits the time in which servers must return their environments. After it the checkpoint is saved
// without them.
const stateWithin = 30 * time.Second

// savedOnServers returns the state of servers' environments in the checkpoint, or nil if it has none.
func (c *Config) savedOnServers() []byte {
	if c.Resume == "" || len(c.URLs) == 0 {
		return nil
	}
	f, err := models.ReadFile(c.Resume)
	if err != nil {
		return nil // openResumed reports the error
	}
	state, err := tensor[uint8](f, serversTensor)
	if err != nil {
		return nil
	}
	return state
}

// loadServers loads the environments in checkpoint f into those of the servers. If that fails, new episodes
// begin.
func (r *Run) loadServers(ctx context.Context, f models.File) error {
	v, ok := r.v.(play.Saver)
	if !ok {
		return nil
	}
	state, err := tensor[uint8](f, serversTensor)
	if err == nil {
		r.loaded, err = v.LoadState(ctx, state)
	}
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	r.loaded, r.inexact = nil, true
	r.warn("resume %s: on servers new episodes begin, and the result is not that of an uninterrupted training: %v", r.Resume, err)
	return nil
}

// say prints a line above the progress bar, or nothing without a bar.
func (r *Run) say(format string, args ...any) {
	if !r.Quiet {
		r.warn(format, args...)
	}
}

// checkParams returns an error for a parameter that is not finite: such a model would only replace a good one.
func checkParams(f models.File, step int) error {
	for _, t := range f.Tensors {
		if strings.HasPrefix(t.Name, models.StatePrefix) || strings.HasPrefix(t.Name, models.OptimizerPrefix) {
			continue
		}
		values, _ := t.Data.([]float32) // as all parameters are
		for i, x := range values {
			if x-x != 0 {
				return fmt.Errorf("parameter %s is %v at index %d after %d timesteps: not saved", t.Name, x, i, step)
			}
		}
	}
	return nil
}

// restore restores environments and running means from the checkpoint. Environments on servers
// start new episodes if the checkpoint does not hold them.
func (r *Run) restore(ctx context.Context) (*envs.Batch, error) {
	f, err := models.ReadFile(r.Resume)
	if err != nil {
		return nil, err
	}
	if r.Episodes.returns, err = tensor[float64](f, returnsTensor); err != nil {
		return nil, err
	}
	if r.Episodes.lengths, err = tensor[int64](f, lengthsTensor); err != nil {
		return nil, err
	}
	if r.loaded != nil {
		return r.loaded, nil
	}
	v, ok := r.v.(*envs.Vec)
	if !ok {
		return r.v.Reset(ctx, envs.VecResetOptions{Seed: new(r.Seed + uint64(r.First))}) // other episodes than before
	}
	snapshot, err := tensor[uint8](f, envsTensor)
	if err != nil {
		return nil, fmt.Errorf("resume %s, which was trained on a server: give it with --url: %w", r.Resume, err)
	}
	return v.Restore(ctx, snapshot)
}

func tensor[T safetensors.Element](f models.File, name string) ([]T, error) {
	t, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	return safetensors.As[T](t)
}

// finish saves the last model, unless the training resumed from it and took no further step.
func (r *Run) finish() error {
	if r.Resume == r.LastModel() && r.Learner.NumTimesteps() == r.First {
		return nil
	}
	return r.save(r.LastModel())
}

// windowSize is the number of episodes in the means of a training, as in Stable-Baselines3.
const windowSize = 100

// Window holds the latest episodes.
type Window struct {
	returns []float64
	lengths []int64
}

func (w *Window) add(ret float64, length int64) {
	w.returns, w.lengths = append(w.returns, ret), append(w.lengths, length)
	if len(w.returns) > windowSize {
		w.returns, w.lengths = w.returns[1:], w.lengths[1:]
	}
}

// Means returns the mean return and length of the episodes; ok is false if there are none.
func (w *Window) Means() (ret, length float64, ok bool) {
	if len(w.returns) == 0 {
		return 0, 0, false
	}
	for _, l := range w.lengths {
		length += float64(l) / float64(len(w.lengths))
	}
	return tracking.Mean(w.returns), length, true
}
