package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// prefix starts the names of the tensors that hold a buffer.
const prefix = models.StatePrefix + "replay."

// Saved reports whether f holds a buffer as Save writes it.
func Saved(f models.File) bool {
	_, err := f.Tensor(prefix + "head")
	return err == nil
}

// Save adds the buffer to a checkpoint, without unused slots.
func (b *Buffer) Save(f *models.File) {
	used := 0 // slots of each environment
	for env := range b.head {
		used = max(used, b.used(env))
	}
	put := func(name string, data any, shape ...int) {
		f.Put(safetensors.Tensor{Name: prefix + name, Shape: shape, Data: data})
	}
	envs := b.cfg.NumEnvs
	put("obs", compact(b.obs, envs, b.ring, used, b.cfg.ObsSize), envs, used, b.cfg.ObsSize)
	mask := make([]uint8, len(b.mask))
	for i, ok := range b.mask {
		if ok {
			mask[i] = 1
		}
	}
	put("mask", compact(mask, envs, b.ring, used, b.cfg.MaskSize), envs, used, b.cfg.MaskSize)
	put("action", compact(b.action, envs, b.ring, used, 1), envs, used)
	put("reward", compact(b.reward, envs, b.ring, used, 1), envs, used)
	put("kind", compact(b.kind, envs, b.ring, used, 1), envs, used)
	put("head", int64s(b.head), envs)
	put("size", int64s(b.size), envs)
	if b.cfg.Prioritized {
		put("priority", compact(b.tree.leaves(), envs, b.ring, used, 1), envs, used)
		put("highest", []float64{b.highest})
	}
}

// Load returns a buffer with b's configuration and the contents that Save wrote. Sampling resumes
// exactly. Load does not change b. The error wraps [models.ErrMismatch] if f holds no buffer, a
// buffer of other sizes, or impossible contents.
func (b *Buffer) Load(f models.File) (*Buffer, error) {
	fresh := b.Empty()
	if err := fresh.load(f); err != nil {
		return nil, fmt.Errorf("replay: load: %w", err)
	}
	return fresh, nil
}

func (b *Buffer) load(f models.File) error {
	n := b.cfg.NumEnvs
	kind, err := f.Tensor(prefix + "kind")
	if err != nil {
		return err
	}
	if len(kind.Shape) != 2 || kind.Shape[0] != n || kind.Shape[1] < 1 || kind.Shape[1] > b.ring {
		return fmt.Errorf("%w: tensor %q has shape %v, want (%d, 1 to %d)", models.ErrMismatch, kind.Name, kind.Shape, n, b.ring)
	}
	used := kind.Shape[1]
	mask := make([]uint8, len(b.mask))
	head, size := make([]int64, n), make([]int64, n)
	for _, err := range []error{
		expand(f, "obs", b.obs, n, b.ring, used, b.cfg.ObsSize, n, used, b.cfg.ObsSize),
		expand(f, "mask", mask, n, b.ring, used, b.cfg.MaskSize, n, used, b.cfg.MaskSize),
		expand(f, "action", b.action, n, b.ring, used, 1, n, used),
		expand(f, "reward", b.reward, n, b.ring, used, 1, n, used),
		expand(f, "kind", b.kind, n, b.ring, used, 1, n, used),
		expand(f, "head", head, n, 1, 1, 1, n),
		expand(f, "size", size, n, 1, 1, 1, n),
	} {
		if err != nil {
			return err
		}
	}
	for i, v := range mask {
		b.mask[i] = v != 0
	}
	for env := range n {
		if head[env] < 0 || head[env] >= int64(used) || size[env] < head[env] || size[env] >= int64(b.ring) {
			return fmt.Errorf("%w: environment %d has its open slot at %d and %d others in use, of %d", models.ErrMismatch, env, head[env], size[env], b.ring)
		}
		b.head[env], b.size[env] = int(head[env]), int(size[env])
		if err := b.check(env); err != nil {
			return err
		}
	}
	if b.cfg.Prioritized {
		return b.loadPriorities(f, used)
	}
	return nil
}

// check returns an error for contents of an environment's ring that would break sampling, and
// counts the transitions.
func (b *Buffer) check(env int) error {
	bad := func(s int, what string, v any) error {
		return fmt.Errorf("%w: slot %d of environment %d has %s %v", models.ErrMismatch, s-env*b.ring, env, what, v)
	}
	if b.used(env) > b.ring || b.size[env] > b.head[env] && b.size[env] != b.ring-1 {
		return fmt.Errorf("%w: environment %d has its open slot at %d and %d others in use", models.ErrMismatch, env, b.head[env], b.size[env])
	}
	for i := range b.ring {
		s := b.slot(env, i)
		inUse := i < b.used(env)
		open := i == b.head[env] || !inUse
		if k := b.kind[s]; k > kindFinal || (k == kindOpen) != open {
			return bad(s, "kind", k)
		}
		if inUse && b.size[env] > 0 && b.cfg.MaskSize > 0 && !slices.Contains(b.maskAt(s), true) {
			return bad(s, "mask", b.maskAt(s))
		}
		if r := float64(b.reward[s]); math.IsNaN(r) || math.IsInf(r, 0) {
			return bad(s, "reward", r)
		}
		if a := b.action[s]; !(a >= 0) || b.cfg.MaskSize > 0 && a >= float32(b.cfg.MaskSize) {
			return bad(s, "action", a)
		}
		if isTransition(b.kind[s]) {
			b.transitions++
		}
	}
	return nil
}

func (b *Buffer) loadPriorities(f models.File, used int) error {
	highest := []float64{0}
	leaves := b.tree.leaves()
	if err := expand(f, "priority", leaves, b.cfg.NumEnvs, b.ring, used, 1, b.cfg.NumEnvs, used); err != nil {
		return err
	}
	if err := expand(f, "highest", highest, 1, 1, 1, 1); err != nil {
		return err
	}
	if b.highest = highest[0]; !(b.highest > 0) || math.IsInf(b.highest, 1) {
		return fmt.Errorf("%w: highest priority %v, want a number above 0", models.ErrMismatch, b.highest)
	}
	for s, p := range leaves {
		if !(p >= 0) || math.IsInf(p, 1) || (p > 0) != isTransition(b.kind[s]) {
			return fmt.Errorf("%w: slot %d has priority %v", models.ErrMismatch, s, p)
		}
	}
	b.tree.rebuild()
	return nil
}

// used returns how many slots at the start of an environment's ring have ever been used.
func (b *Buffer) used(env int) int {
	if b.size[env] > b.head[env] {
		return b.ring
	}
	return b.head[env] + 1
}

// compact returns the first used slots of each environment's ring.
func compact[T any](data []T, envs, ring, used, width int) []T {
	out := make([]T, 0, envs*used*width)
	for env := range envs {
		out = append(out, data[env*ring*width:][:used*width]...)
	}
	return out
}

// expand copies a tensor of that shape into data; it is the inverse of compact.
func expand[T safetensors.Element](f models.File, name string, data []T, envs, ring, used, width int, shape ...int) error {
	t, err := f.Tensor(prefix + name)
	if err != nil {
		return err
	}
	values, err := safetensors.As[T](t)
	if err != nil {
		return fmt.Errorf("%w: %w", models.ErrMismatch, err)
	}
	if want := envs * used * width; len(values) != want || len(shape) > 0 && !slices.Equal(t.Shape, shape) {
		return fmt.Errorf("%w: tensor %q has shape %v, want %v", models.ErrMismatch, t.Name, t.Shape, shape)
	}
	for env := range envs {
		copy(data[env*ring*width:][:used*width], values[env*used*width:])
	}
	return nil
}

func int64s(x []int) []int64 {
	out := make([]int64, len(x))
	for i, v := range x {
		out[i] = int64(v)
	}
	return out
}
