package gang

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// execute returns the true duration of the superstep and its slowest task, and notes that of each.
func (t *Task) execute(now int) (duration float64, bottleneck int) {
	sizes := t.in.True(now)
	for k, l := range t.levels {
		d := t.src.model.DurationAt(k, sizes[k], int(l))
		if t.opts.Noise > 0 || t.opts.StragglerProb > 0 {
			d *= math.Exp(t.residual(&t.src.laws[k]))
		}
		t.durations[k] = d
		if d > duration || k == 0 {
			duration, bottleneck = d, k
		}
	}
	return duration, bottleneck
}

// residual draws by how much the logarithm of a task's duration differs from its model's.
func (t *Task) residual(law *profile.Law) float64 {
	residual := t.opts.Noise * min(max(law.RMS*t.rng.NormFloat64(), -law.Worst), law.Worst)
	if t.opts.StragglerProb > 0 && t.rng.Float64() < t.opts.StragglerProb {
		residual = law.Worst
	}
	return residual
}

// reconfigure changes to next, in the cluster too, and charges for it. The first
// configuration of an episode is free in the sound dynamics, as in the source's simulator,
// and charged in the compatible ones, as in its environment.
func (t *Task) reconfigure(ctx context.Context, c cluster.Cluster) error {
	changed := 0
	for k, l := range t.next {
		if l != t.levels[k] {
			changed++
		}
	}
	t.changed = changed
	if err := t.change(ctx, c, changed); err != nil {
		return err
	}
	t.levels, t.next = t.next, t.levels
	t.since, t.planned = 0, false
	if t.step == 0 && !t.compatible() {
		return nil
	}
	t.checkpoints++
	switch t.opts.PenaltyModel {
	case PenaltyConstant:
		t.penalty = t.opts.Penalty
	case PenaltyPerTask:
		t.penalty = t.opts.Penalty * float64(changed) / float64(len(t.levels))
	case PenaltyResize:
		t.penalty = t.opts.ResizeSeconds * float64(changed)
	}
	return c.Advance(ctx, seconds(t.penalty))
}

// create adds the node, whose cores are the budget, and a running pod for each task.
func (t *Task) create(ctx context.Context, c cluster.Cluster) error {
	m := t.src.model
	if t.meta == nil {
		t.meta = append(t.meta, c.State().Intern(cluster.Meta{Name: "gang-node"}))
		for _, task := range m.Profile().Tasks {
			t.meta = append(t.meta, c.State().Intern(cluster.Meta{Name: task}))
		}
	}
	t.ops = append(t.ops[:0], cluster.Op{
		Kind: cluster.AddNode, Meta: t.meta[0], Resources: cluster.Resources{MilliCPU: int64(m.Config().TotalMilliCPU)},
	})
	for k, l := range t.levels {
		t.addPod(k, l, int32(k))
	}
	return c.Apply(ctx, t.ops)
}

// addPod appends the ops that create task k with the shares of level as pod number pod.
func (t *Task) addPod(k int, level uint16, pod int32) {
	t.pods[k] = pod
	t.ops = append(t.ops,
		cluster.Op{Kind: cluster.AddPod, Pod: pod, Meta: t.meta[k+1], Resources: t.requests(level)},
		cluster.Op{Kind: cluster.Bind, Pod: pod, Node: 0})
}

func (t *Task) requests(level uint16) cluster.Resources {
	return cluster.Resources{MilliCPU: int64(t.src.model.MilliCPU(int(level)))}
}

// change brings the cluster from levels to next: by resizing in place, or by deleting and
// creating pods again. Shrinking and deletion come before growth and creation, so that the
// node's cores always suffice.
func (t *Task) change(ctx context.Context, c cluster.Cluster, changed int) error {
	t.ops = t.ops[:0]
	if t.opts.PenaltyModel == PenaltyResize {
		for _, grow := range []bool{false, true} {
			for k, l := range t.next {
				if l != t.levels[k] && l > t.levels[k] == grow {
					t.ops = append(t.ops, cluster.Op{Kind: cluster.Resize, Pod: t.pods[k], Resources: t.requests(l)})
				}
			}
		}
		return c.Apply(ctx, t.ops)
	}
	all := t.opts.PenaltyModel == PenaltyConstant
	if changed == 0 && !all {
		return nil
	}
	for k, l := range t.next {
		if all || l != t.levels[k] {
			t.ops = append(t.ops, cluster.Op{Kind: cluster.Delete, Pod: t.pods[k]})
		}
	}
	pod := int32(len(c.State().Pods))
	for k, l := range t.next {
		if all || l != t.levels[k] {
			t.addPod(k, l, pod)
			pod++
		}
	}
	return c.Apply(ctx, t.ops)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Apply implements [envs.Task]: action 0 keeps the configuration, action w changes to the one
// that the resource configuration algorithm gives for the next w supersteps; then the
// superstep is executed.
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	if t.step == t.opts.Steps {
		return envs.Outcome{}, fmt.Errorf("the instance ends after %d steps; option steps makes longer ones", t.opts.Steps)
	}
	now := t.Step()
	t.window, t.penalty, t.changed = int(action[0]), 0, 0
	if t.window > 0 && !t.planned {
		copy(t.next, t.in.Config(now, t.window))
	}
	t.since = min(t.since, math.MaxInt-1) + 1
	if t.window > 0 || t.planned {
		if err := t.reconfigure(ctx, c); err != nil {
			return envs.Outcome{}, err
		}
	}
	t.duration, t.bottleneck = t.execute(now)
	t.total += t.duration + t.penalty
	t.step++
	if err := t.prepare(ctx); err != nil {
		return envs.Outcome{}, err
	}
	return envs.Outcome{Reward: t.reward()}, c.Advance(ctx, seconds(t.duration))
}
