package main

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

	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// The layout of a log folder is RL Zoo's: <log-folder>/<algo>/<env>_<k>/, with the best and
// the last model, checkpoints, and the logs of package tracking.

// envName is the id of an environment as a file name.
func envName(id string) string { return strings.ReplaceAll(id, "/", "-") }

func (r *run) path(name string) string { return filepath.Join(r.folder, name) }

func (r *run) bestModel() string  { return r.path("best_model.safetensors") }
func (r *run) finalModel() string { return r.path(envName(r.spec.ID) + ".safetensors") }
func (r *run) checkpointPath(step int) string {
	return r.path(fmt.Sprintf("rl_model_%d_steps.safetensors", step))
}

// Tensors that the trainer adds to the learner's in a checkpoint, to resume.
const (
	envsTensor    = models.StatePrefix + "envs"
	returnsTensor = models.StatePrefix + "ep_returns"
	lengthsTensor = models.StatePrefix + "ep_lengths"
)

// openFolder makes a new log folder, or opens that of the checkpoint.
func (r *run) openFolder(ctx context.Context) error {
	if r.resume != "" {
		r.folder = filepath.Dir(r.resume)
		return r.openResumed()
	}
	var err error
	if r.folder == "" {
		r.folder, err = newFolder(filepath.Join(r.logFolder, r.algo), envName(r.spec.ID))
	} else {
		err = os.MkdirAll(r.folder, 0o755)
	}
	if err != nil {
		return err
	}
	if r.logs, err = createLogs(r.folder, r.spec.ID); err != nil {
		return err
	}
	return r.writeConfig(r.folder, nil, 0)
}

// openResumed brings the learner, the logs and the files of the folder to the checkpoint.
func (r *run) openResumed() error {
	f, err := models.ReadFile(r.resume)
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
	if err := r.learner.Load(&buf); err != nil {
		return fmt.Errorf("resume %s: %w", r.resume, err)
	}
	r.first, r.saved = r.learner.NumTimesteps(), r.resume
	if r.best, r.curve, err = readEvaluations(r.path("evaluations.csv"), r.first); err != nil {
		return err
	}
	if _, ok := r.v.(snapshotter); !ok {
		r.inexact = true
		r.warn("resume %s: on servers new episodes begin, and the result is not that of an uninterrupted training", r.resume)
	}
	for _, c := range r.changes {
		r.warn("resume %s: %s", r.resume, c)
	}
	if err := r.supersede(); err != nil {
		return err
	}
	r.solved = r.threshold != nil && r.best >= *r.threshold
	if r.logs, err = resumeLogs(r.folder, r.spec.ID, int64(r.first)); err != nil {
		return err
	}
	return r.writeConfig(r.folder, nil, r.first)
}

// newFolder makes parent/<name>_<k> for the least k from 1 on that is not there.
func newFolder(parent, name string) (string, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	for k := 1; ; k++ {
		dir := filepath.Join(parent, fmt.Sprintf("%s_%d", name, k))
		if err := os.Mkdir(dir, 0o755); !errors.Is(err, fs.ErrExist) {
			return dir, err
		}
	}
}

// save writes a checkpoint that holds the learner, the environments and the running means.
func (r *run) save(path string) error {
	if err := r.write(path, r.learner.Save); err != nil {
		return err
	}
	r.saved = path
	return nil
}

// saveBest writes the best model. It is to be played, so that it has no replay buffer.
func (r *run) saveBest() error {
	if l, ok := r.learner.Learner.(interface{ SaveWithoutReplayBuffer(io.Writer) error }); ok {
		return r.write(r.bestModel(), l.SaveWithoutReplayBuffer)
	}
	return r.save(r.bestModel())
}

// write writes the file that save gives, with what the training itself needs to resume.
func (r *run) write(path string, save func(io.Writer) error) error {
	var buf bytes.Buffer
	if err := save(&buf); err != nil {
		return err
	}
	f, err := models.Read(&buf)
	if err != nil {
		return err
	}
	if err := checkParams(f, r.learner.NumTimesteps()); err != nil {
		return err
	}
	if v, ok := r.v.(snapshotter); ok {
		snapshot, err := v.Snapshot()
		if err != nil {
			return err
		}
		f.Put(safetensors.Tensor{Name: envsTensor, Shape: []int{len(snapshot)}, Data: snapshot})
	}
	f.Put(
		safetensors.Tensor{Name: returnsTensor, Shape: []int{len(r.episodes.returns)}, Data: r.episodes.returns},
		safetensors.Tensor{Name: lengthsTensor, Shape: []int{len(r.episodes.lengths)}, Data: r.episodes.lengths},
	)
	if err := r.putTraining(&f); err != nil {
		return err
	}
	if err := models.WriteFile(path, f); err != nil {
		return err
	}
	if size := replay.CompressedBytes(f); size > 0 && !r.toldBuffer {
		r.toldBuffer = true
		r.say("%s: its replay buffer takes %.1f MB; --params checkpoint_replay_buffer:false leaves it out, and then no resumed training is exact", path, float64(size)/1e6)
	}
	return nil
}

// say prints a line where there is a progress bar, above it.
func (r *run) say(format string, args ...any) {
	if !r.quiet {
		r.warn(format, args...)
	}
}

// checkParams reports a parameter that is not finite: such a model would only replace a good
// one.
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

// restore brings environments and running means to where the checkpoint left them.
// Environments on a server begin new episodes instead.
func (r *run) restore(ctx context.Context) (*envs.Batch, error) {
	f, err := models.ReadFile(r.resume)
	if err != nil {
		return nil, err
	}
	if r.episodes.returns, err = tensor[float64](f, returnsTensor); err != nil {
		return nil, err
	}
	if r.episodes.lengths, err = tensor[int64](f, lengthsTensor); err != nil {
		return nil, err
	}
	v, ok := r.v.(snapshotter)
	if !ok {
		seed := r.seed + uint64(r.first) // not the episodes that were played already
		return r.v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	}
	snapshot, err := tensor[uint8](f, envsTensor)
	if err != nil {
		return nil, fmt.Errorf("resume %s, which was trained on a server: give it with --url: %w", r.resume, err)
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

// finish saves the last model, unless it was resumed from and nothing came after it.
func (r *run) finish() error {
	if r.resume == r.finalModel() && r.learner.NumTimesteps() == r.first {
		return nil
	}
	return r.save(r.finalModel())
}

// windowSize is the number of episodes over which the training's means are taken, as in
// Stable-Baselines3.
const windowSize = 100

// window holds the last episodes.
type window struct {
	returns []float64
	lengths []int64
}

func (w *window) add(ret float64, length int64) {
	w.returns, w.lengths = append(w.returns, ret), append(w.lengths, length)
	if len(w.returns) > windowSize {
		w.returns, w.lengths = w.returns[1:], w.lengths[1:]
	}
}

func (w *window) means() (ret, length float64, ok bool) {
	if len(w.returns) == 0 {
		return 0, 0, false
	}
	for _, l := range w.lengths {
		length += float64(l) / float64(len(w.lengths))
	}
	return tracking.Mean(w.returns), length, true
}
