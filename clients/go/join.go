package client

import (
	"context"
	"errors"
	"fmt"
	"image"
	"reflect"
	"slices"
	"sync"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Joined is one vector of the environments of several servers, which step concurrently. It is not
// safe for concurrent use.
type Joined struct {
	parts []*VecEnv
	first []int // row of each part's first environment; last, the number of environments
	batch *envs.Batch
}

var _ envs.VecEnv = (*Joined)(nil)

// Join combines parts, in their order, into one vector, and takes ownership of them. They must be
// of one environment, with equal spaces and the same autoreset mode. Batches of a part are rows of
// the vector's batches.
func Join(parts ...*VecEnv) (*Joined, error) {
	if len(parts) == 0 {
		return nil, errors.New("client: join of nothing")
	}
	j := &Joined{parts: parts, first: []int{0}}
	p0 := parts[0]
	for _, p := range parts {
		same := reflect.DeepEqual(p.obs.Describe(), p0.obs.Describe()) && reflect.DeepEqual(p.act.Describe(), p0.act.Describe())
		if p.spec.ID != p0.spec.ID || p.mode != p0.mode || !same {
			return nil, fmt.Errorf("client: join of %s (%v) and %s (%v), want equal environments", p0.spec.ID, p0.mode, p.spec.ID, p.mode)
		}
		j.first = append(j.first, j.first[len(j.first)-1]+p.NumEnvs())
	}
	j.batch = envs.NewBatch(j.NumEnvs(), p0.obs.Size(), p0.layout.Mask, len(p0.spec.Info), p0.mode)
	if !slices.ContainsFunc(parts, func(p *VecEnv) bool { return p.batch.Failed == nil }) {
		j.batch.Failed = make([]error, j.NumEnvs())
	}
	for k, p := range parts {
		old := p.batch
		p.batch = part(j.batch, j.first[k], j.first[k+1], j.NumEnvs())
		copyBatch(p.batch, old)
	}
	return j, nil
}

// part returns rows [from, to) of b, which has n rows.
func part(b *envs.Batch, from, to, n int) *envs.Batch {
	return &envs.Batch{
		Obs: cut(b.Obs, from, to, n), Mask: cut(b.Mask, from, to, n), Info: cut(b.Info, from, to, n),
		Reward: cut(b.Reward, from, to, n), Terminated: cut(b.Terminated, from, to, n),
		Truncated: cut(b.Truncated, from, to, n), Invalid: cut(b.Invalid, from, to, n),
		FinalObs: cut(b.FinalObs, from, to, n), FinalMask: cut(b.FinalMask, from, to, n), FinalInfo: cut(b.FinalInfo, from, to, n),
		EpisodeReturn: cut(b.EpisodeReturn, from, to, n), EpisodeLength: cut(b.EpisodeLength, from, to, n),
		Failed: cut(b.Failed, from, to, n),
	}
}

func cut[T any](s []T, from, to, n int) []T {
	if s == nil {
		return nil
	}
	k := len(s) / n
	return s[from*k : to*k : to*k]
}

// copyBatch copies the state of src, without rewards and flags, which each step and reset sets.
func copyBatch(dst, src *envs.Batch) {
	copy(dst.Obs, src.Obs)
	copy(dst.Mask, src.Mask)
	copy(dst.Info, src.Info)
	copy(dst.FinalObs, src.FinalObs)
	copy(dst.FinalMask, src.FinalMask)
	copy(dst.FinalInfo, src.FinalInfo)
	copy(dst.EpisodeReturn, src.EpisodeReturn)
	copy(dst.EpisodeLength, src.EpisodeLength)
}

// Spec implements [envs.VecEnv].
func (j *Joined) Spec() *envs.Spec { return j.parts[0].spec }

// NumEnvs implements [envs.VecEnv].
func (j *Joined) NumEnvs() int { return j.first[len(j.first)-1] }

// Autoreset returns the mode of the parts.
func (j *Joined) Autoreset() envs.AutoresetMode { return j.parts[0].mode }

// Spaces returns the observation and the action space of one environment.
func (j *Joined) Spaces() (obs, act space.Space) { return j.parts[0].Spaces() }

// Sizes returns how many environments each part has.
func (j *Joined) Sizes() []int {
	sizes := make([]int, len(j.parts))
	for k := range sizes {
		sizes[k] = j.first[k+1] - j.first[k]
	}
	return sizes
}

// Features returns the names of the observation's elements, or nil if the environment names none.
func (j *Joined) Features() []envs.Features { return j.parts[0].features }

// MaxEpisodeSteps returns the time limit; 0: none.
func (j *Joined) MaxEpisodeSteps() int { return j.parts[0].limit }

// at returns the part that environment i belongs to, and its row there.
func (j *Joined) at(i int) (part, row int) {
	part, found := slices.BinarySearch(j.first, i)
	if !found {
		part--
	}
	return part, i - j.first[part]
}

// Step implements [envs.VecEnv]. All servers step concurrently. If one fails, others may have
// stepped, so the vector must be reset.
func (j *Joined) Step(ctx context.Context, actions []float32) (*envs.Batch, error) {
	if j.parts[0].closed {
		return nil, envs.ErrClosed
	}
	k := j.parts[0].layout.ActSize
	if len(actions) != j.NumEnvs()*k {
		return nil, fmt.Errorf("%w: %d numbers for %d environments, want %d", envs.ErrInvalidAction, len(actions), j.NumEnvs(), j.NumEnvs()*k)
	}
	for i, p := range j.parts {
		if err := p.checkActions(actions[j.first[i]*k:j.first[i+1]*k], j.first[i]); err != nil {
			return nil, err
		}
	}
	return j.all(
		func(i int, p *VecEnv) (bool, error) {
			return true, p.sendStep(ctx, actions[j.first[i]*k:j.first[i+1]*k])
		},
		func(_ int, p *VecEnv) error { return p.receiveStep(ctx) })
}

// all sends on every part and then receives on those that sent something, even after an error, so that no reply stays
// unread. Parts receive concurrently, each into its own rows of the batch that all returns.
func (j *Joined) all(send func(i int, p *VecEnv) (bool, error), receive func(i int, p *VecEnv) error) (*envs.Batch, error) {
	errs, sent := make([]error, 2*len(j.parts)), make([]bool, len(j.parts))
	for i, p := range j.parts {
		ok, err := send(i, p)
		errs[i], sent[i] = err, ok && err == nil
	}
	get := func(i int) {
		if sent[i] {
			errs[len(j.parts)+i] = countedFrom(j.first[i], receive(i, j.parts[i]))
		}
	}
	var replies sync.WaitGroup
	for i := 1; i < len(j.parts); i++ {
		replies.Go(func() { get(i) })
	}
	get(0) // a single server needs no goroutine
	replies.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return j.batch, nil
}

// Reset implements [envs.VecEnv].
func (j *Joined) Reset(ctx context.Context, opts envs.VecResetOptions) (*envs.Batch, error) {
	if j.parts[0].closed {
		return nil, envs.ErrClosed
	}
	if err := opts.Check(j.NumEnvs()); err != nil {
		return nil, err
	}
	split := make([]envs.VecResetOptions, len(j.parts))
	for i := range split {
		split[i] = j.partOptions(&opts, i)
	}
	return j.all(
		func(i int, p *VecEnv) (bool, error) {
			if selectsNone(split[i].Mask) {
				p.rows.keep(p.batch)
				return false, nil
			}
			return true, p.sendReset(ctx, &split[i])
		},
		func(i int, p *VecEnv) error { return p.receiveReset(ctx, &split[i]) })
}

func selectsNone(mask []bool) bool { return mask != nil && !slices.Contains(mask, true) }

// partOptions returns the options of a reset for part i.
func (j *Joined) partOptions(opts *envs.VecResetOptions, i int) envs.VecResetOptions {
	o := envs.VecResetOptions{Options: opts.Options}
	from, to := j.first[i], j.first[i+1]
	if opts.Seed != nil {
		o.Seed = new(*opts.Seed + uint64(from))
	}
	if opts.Seeds != nil {
		o.Seeds = opts.Seeds[from:to]
	}
	if opts.Mask != nil {
		o.Mask = opts.Mask[from:to]
	}
	return o
}

// RenderANSI is [VecEnv.RenderANSI].
func (j *Joined) RenderANSI(i int) (string, error) {
	if i < 0 || i >= j.NumEnvs() {
		return "", fmt.Errorf("client: environment %d, want 0 to %d", i, j.NumEnvs()-1)
	}
	part, row := j.at(i)
	text, err := j.parts[part].RenderANSI(row)
	return text, countedFrom(j.first[part], err)
}

// RenderRGB is [VecEnv.RenderRGB].
func (j *Joined) RenderRGB(i int) (*image.RGBA, error) {
	if i < 0 || i >= j.NumEnvs() {
		return nil, fmt.Errorf("client: environment %d, want 0 to %d", i, j.NumEnvs()-1)
	}
	part, row := j.at(i)
	img, err := j.parts[part].RenderRGB(row)
	return img, countedFrom(j.first[part], err)
}

// Close closes all parts.
func (j *Joined) Close() error {
	var err error
	for _, p := range j.parts {
		err = errors.Join(err, p.Close())
	}
	return err
}
