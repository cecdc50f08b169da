package envs

import (
	"context"
	"errors"
	"fmt"
	"image"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/envs/space"
)

// VecOptions are the arguments of [NewVec]. Zero selects the default.
type VecOptions struct {
	Options         map[string]any                  // of the environment
	Autoreset       AutoresetMode                   // default NextStep
	MaxEpisodeSteps int                             // overrides the environment's time limit
	Shards          int                             // goroutines that step; default by NumEnvs, Spec.StepNanos and GOMAXPROCS; changes no result
	Log             bool                            // record actions, so that Snapshot works
	Portable        bool                            // record actions in bounded memory, unless tasks are a [Resumer]; see [Vec.Portable]
	NewCluster      func() (cluster.Cluster, error) // default: by Spec.Backend, or sim.New

	// Admit is called before the second environment is made, with an estimate of the bytes of all environments, see
	// [Sized]. NewVec returns its error. Nil admits all.
	Admit func(bytes int64) error
	// NewVec ends when the context Making ends; nil never does.
	Making context.Context
	// Isolate limits the failure of an environment, an error or a panic of its task, to its episode: see
	// [Batch.Failed].
	Isolate bool
}

// Vec is the [VecEnv] of this process: n environments, stepped by a fixed set of goroutines, each
// for its own rows. A step allocates only what the task allocates. Results do not depend on the
// number of goroutines.
type Vec struct {
	spec   *Spec
	envs   []*Env
	mode   AutoresetMode
	batch  *Batch
	obs    space.Space
	act    space.Space
	nObs   int
	nAct   int
	nMask  int
	nInfo  int
	bytes  int64 // estimated
	closed bool
	repair *repair // nil if failures are errors

	bounds []int           // shard k has rows bounds[k] … bounds[k+1]-1
	work   []chan struct{} // wakes worker k, for shards 1 …
	done   chan struct{}
	crew   Crew // steps the shards instead of the workers; may be nil
	shard  func(worker, shard int)
	errs   []rowError // first failure of each shard
	gather []gathered // of each shard; nil unless the task is a Batcher
	job    job
}

// job is the next work of the shards. It is written before they are woken.
type job struct {
	ctx     context.Context
	actions []float32 // nil: reset
	reset   VecResetOptions
}

var _ VecEnv = (*Vec)(nil)

// A Coster is a Task whose options change the cost of a step.
type Coster interface {
	StepNanos() int // as Spec.StepNanos
}

// NewVec makes n environments of spec. If that fails or panics, it closes those that it has made.
func NewVec(spec *Spec, n int, opts VecOptions) (_ *Vec, err error) {
	if n < 1 {
		return nil, fmt.Errorf("envs: %d environments of %s, want at least 1", n, spec.ID)
	}
	maker, err := spec.Open(opts.Options)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", spec.ID, err)
	}
	newCluster, err := backend(spec, opts)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", spec.ID, err)
	}
	v := &Vec{spec: spec, mode: opts.Autoreset, done: make(chan struct{})}
	made := false
	defer func() {
		if !made {
			err = errors.Join(err, v.Close())
		}
	}()
	var rows []Env
	for i := range n {
		task, err := v.makeTask(maker, i, n, &opts)
		if err != nil {
			return nil, fmt.Errorf("make environment %d of %s: %w", i, spec.ID, err)
		}
		c, err := newCluster()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make cluster %d of %s: %w", i, spec.ID, err), closeTask(task))
		}
		if i == 0 {
			rows = make([]Env, n) // together, which vectors of many environments read faster
		}
		e := rows[i].init(spec, task, c, opts.MaxEpisodeSteps)
		e.logged = opts.Log || opts.portable(spec)
		if !opts.Log && e.logged {
			_, e.brief = task.(Resumer)
			e.keep = kept(n, e.act.Size(), e.limit)
		}
		v.envs = append(v.envs, e)
	}
	v.obs, v.act = v.envs[0].task.Spaces()
	v.nObs, v.nAct, v.nMask, v.nInfo = v.obs.Size(), v.act.Size(), space.MaskSize(v.act), len(spec.Info)
	v.batch = NewBatch(n, v.nObs, v.nMask, v.nInfo, v.mode)
	if opts.Isolate {
		v.isolate(maker, newCluster, opts.MaxEpisodeSteps)
	}
	v.startShards(opts.Shards)
	made = true
	return v, nil
}

// makeTask makes the task of environment i of n, unless opts.Admit rejects it.
func (v *Vec) makeTask(maker Maker, i, n int, opts *VecOptions) (Task, error) {
	if opts.Making != nil && opts.Making.Err() != nil {
		return nil, opts.Making.Err()
	}
	task, err := maker()
	if err != nil || i > 0 {
		return task, err
	}
	v.bytes = estimate(task, n, len(v.spec.Info), v.mode)
	if _, brief := task.(Resumer); !brief && opts.portable(v.spec) {
		_, act := task.Spaces()
		v.bytes += keptBytes(n, act.Size(), limitOf(v.spec, task, opts.MaxEpisodeSteps))
	}
	if opts.Admit != nil {
		if err := opts.Admit(v.bytes); err != nil {
			return nil, errors.Join(err, closeTask(task))
		}
	}
	return task, nil
}

// portable reports whether environments of spec record actions for AppendState.
func (o *VecOptions) portable(spec *Spec) bool { return o.Portable && !spec.Nondeterministic }

// Portable reports whether [Vec.AppendState] works for these environments: with VecOptions.Log, or with Portable unless
// the Spec is nondeterministic.
func (v *Vec) Portable() bool { return v.envs[0].logged }

// Bytes returns the estimated memory of the environments, as given to [VecOptions.Admit].
func (v *Vec) Bytes() int64 { return v.bytes }

// backend returns a function that makes the cluster of an environment.
func backend(spec *Spec, opts VecOptions) (func() (cluster.Cluster, error), error) {
	switch {
	case opts.NewCluster != nil:
		return opts.NewCluster, nil
	case spec.Backend != nil:
		return spec.Backend(opts.Options)
	}
	return func() (cluster.Cluster, error) { return sim.New(), nil }, nil
}

// Make is NewVec for a registered id.
func Make(id string, n int, opts VecOptions) (*Vec, error) {
	spec, err := Lookup(id)
	if err != nil {
		return nil, err
	}
	return NewVec(spec, n, opts)
}

// Notes returns warnings about the environments' data; see [Noter].
func (v *Vec) Notes() []string {
	if n, ok := v.envs[0].task.(Noter); ok {
		return n.Notes()
	}
	return nil
}

// Spec implements [VecEnv].
func (v *Vec) Spec() *Spec { return v.spec }

// NumEnvs implements [VecEnv].
func (v *Vec) NumEnvs() int { return len(v.envs) }

// Autoreset returns the mode given to NewVec.
func (v *Vec) Autoreset() AutoresetMode { return v.mode }

// Spaces implements [VecEnv].
func (v *Vec) Spaces() (obs, act space.Space) { return v.obs, v.act }

// Last returns the Batch of the last Reset or Step.
func (v *Vec) Last() *Batch { return v.batch }

// Env returns environment i, for baselines and for rendering. The caller must not step it.
func (v *Vec) Env(i int) *Env { return v.envs[i] }

// Reset implements [VecEnv].
func (v *Vec) Reset(ctx context.Context, opts VecResetOptions) (*Batch, error) {
	if v.closed {
		return nil, ErrClosed
	}
	if err := opts.Check(len(v.envs)); err != nil {
		return nil, err
	}
	v.job = job{ctx: ctx, reset: opts}
	return v.run()
}

// Step implements [VecEnv]. When ctx ends, environments that have not stepped yet do not.
func (v *Vec) Step(ctx context.Context, actions []float32) (*Batch, error) {
	if v.closed {
		return nil, ErrClosed
	}
	if len(actions) != len(v.envs)*v.nAct {
		return nil, fmt.Errorf("%w: %d numbers for %d environments, want %d", ErrInvalidAction, len(actions), len(v.envs), len(v.envs)*v.nAct)
	}
	discrete, isDiscrete := v.act.(space.Discrete) // checked without a call of an interface
	for i, e := range v.envs {
		if e.ended && v.mode == NextStep {
			continue
		}
		if !e.running {
			return nil, fmt.Errorf("environment %d: %w", i, ErrResetNeeded)
		}
		a := actions[i*v.nAct : (i+1)*v.nAct]
		if isDiscrete && discrete.Contains(a) {
			continue
		}
		if !v.act.Contains(a) {
			return nil, fmt.Errorf("environment %d: %w", i, invalidAction(v.act, a))
		}
	}
	v.job = job{ctx: ctx, actions: actions}
	return v.run()
}

func (v *Vec) resetRow(i int) error {
	r := &v.job.reset
	b := v.batch
	b.Reward[i], b.Terminated[i], b.Truncated[i], b.Invalid[i] = 0, false, false, false
	if v.repair != nil {
		b.Failed[i] = nil
	}
	if r.Mask != nil && !r.Mask[i] {
		return nil
	}
	opts := ResetOptions{Options: r.Options}
	var seed uint64
	if r.Seed != nil {
		seed = *r.Seed + uint64(i)
		opts.Seed = &seed
	} else if r.Seeds != nil {
		opts.Seed = &r.Seeds[i]
	}
	return v.beginRow(v.job.ctx, i, opts)
}

// beginRow starts an episode in environment i and writes its first observation.
func (v *Vec) beginRow(ctx context.Context, i int, opts ResetOptions) error {
	if v.repair != nil {
		return v.beginIsolated(ctx, i, opts)
	}
	return v.begin(ctx, i, opts)
}

func (v *Vec) begin(ctx context.Context, i int, opts ResetOptions) error {
	e := v.envs[i]
	if err := e.Reset(ctx, opts); err != nil {
		return err
	}
	v.batch.EpisodeReturn[i], v.batch.EpisodeLength[i] = 0, 0
	v.observeRow(i, v.batch.Obs, v.batch.Mask, v.batch.Info)
	return nil
}

func (v *Vec) observeRow(i int, obs []float32, mask []bool, info []float64) {
	e := v.envs[i]
	e.Observe(obs[i*v.nObs:(i+1)*v.nObs], mask[i*v.nMask:(i+1)*v.nMask])
	if v.nInfo > 0 {
		e.Info(info[i*v.nInfo : (i+1)*v.nInfo])
	}
}

func (v *Vec) stepRow(ctx context.Context, i int, action []float32) error {
	if v.repair != nil {
		v.batch.Failed[i] = nil
	}
	if v.envs[i].ended { // in mode NextStep; Step has rejected the other modes
		return v.nextRow(ctx, i)
	}
	var err error
	if v.repair != nil {
		err = v.advanceIsolated(ctx, i, action)
	} else {
		err = v.advance(ctx, i, action)
	}
	if err != nil || v.mode != SameStep || !v.envs[i].ended { // v.envs[i] is replaced after a failure
		return err
	}
	return v.sameRow(ctx, i)
}

// nextRow begins an episode in the step after the last one.
func (v *Vec) nextRow(ctx context.Context, i int) error {
	b := v.batch
	b.Reward[i], b.Terminated[i], b.Truncated[i], b.Invalid[i] = 0, false, false, false
	return v.beginRow(ctx, i, ResetOptions{})
}

// sameRow begins an episode in the last step of another.
func (v *Vec) sameRow(ctx context.Context, i int) error {
	b := v.batch
	ret, length := b.EpisodeReturn[i], b.EpisodeLength[i]
	err := v.beginRow(ctx, i, ResetOptions{})
	b.EpisodeReturn[i], b.EpisodeLength[i] = ret, length
	return err
}

// advance carries out an action in environment i and writes the results.
func (v *Vec) advance(ctx context.Context, i int, action []float32) error {
	e, b := v.envs[i], v.batch
	b.Invalid[i] = !space.Masked(v.act, action, b.Mask[i*v.nMask:(i+1)*v.nMask])
	t, err := e.step(ctx, action)
	if err != nil {
		return err
	}
	b.Reward[i], b.Terminated[i], b.Truncated[i] = t.Reward, t.Terminated, t.Truncated
	b.EpisodeReturn[i], b.EpisodeLength[i] = e.ret, int64(e.steps)
	if v.mode == SameStep && e.ended {
		v.observeRow(i, b.FinalObs, b.FinalMask, b.FinalInfo)
	} else {
		v.observeRow(i, b.Obs, b.Mask, b.Info)
	}
	return nil
}

// RenderANSI returns environment i as text, or an error if its task cannot render.
func (v *Vec) RenderANSI(i int) (string, error) {
	r, err := v.renderer(i)
	if err != nil {
		return "", err
	}
	return r.RenderANSI(v.envs[i].State()), nil
}

// RenderRGB returns environment i as an image, or an error if its task cannot render.
func (v *Vec) RenderRGB(i int) (*image.RGBA, error) {
	r, err := v.renderer(i)
	if err != nil {
		return nil, err
	}
	return r.RenderRGB(v.envs[i].State()), nil
}

func (v *Vec) renderer(i int) (Renderer, error) {
	if i < 0 || i >= len(v.envs) {
		return nil, fmt.Errorf("envs: render environment %d of %d", i, len(v.envs))
	}
	r, ok := v.envs[i].task.(Renderer)
	if !ok {
		return nil, fmt.Errorf("envs: %s cannot render", v.spec.ID)
	}
	return r, nil
}

// Close ends the goroutines and closes every environment. A panic of one becomes an error, as in a step. Further calls
// do nothing.
func (v *Vec) Close() error {
	if v.closed {
		return nil
	}
	v.closed = true
	v.stopShards()
	var err error
	for _, e := range v.envs {
		err = errors.Join(err, v.caught(e.Close))
	}
	return err
}
