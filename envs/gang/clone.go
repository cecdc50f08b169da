package gang

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Clone implements [envs.Cloner]. The copies share the instance, which episodes do not change.
func (t *Task) Clone(rng *rand.Rand) envs.Task {
	c := *t
	c.rng = rng
	c.levels, c.next, c.pods = slices.Clone(t.levels), slices.Clone(t.next), t.pods.Clone()
	c.keep, c.durations = slices.Clone(t.keep), slices.Clone(t.durations)
	return &c
}

// progress holds what an episode changes beside the plain fields of a Task.
type progress struct {
	levels    []uint16
	durations []float64
	created   []time.Duration // of the pods
	now       time.Duration   // of the cluster
	expected  uint64          // bits of Task.expected, which may be NaN
}

// fields points to everything that an episode changes. The JSON array of the values is the episode's state.
func (t *Task) fields(p *progress) [14]any {
	return [...]any{
		&t.step, &t.since, &t.window, &t.bottleneck, &t.checkpoints, &t.duration, &t.penalty, &t.total, &t.changed,
		&p.levels, &p.durations, &p.created, &p.now, &p.expected,
	}
}

// AppendEpisode implements [envs.Resumer].
func (t *Task) AppendEpisode(dst []byte, s *cluster.State) ([]byte, error) {
	data, err := json.Marshal(t.fields(&progress{t.levels, t.durations, t.pods.Created(s), s.Now, math.Float64bits(t.expected)}))
	return append(dst, data...), err
}

// ResumeEpisode implements [envs.Resumer]. It does not re-create the pods of earlier configurations.
func (t *Task) ResumeEpisode(ctx context.Context, c cluster.Cluster, data []byte) error {
	var p progress
	fields := t.fields(&p)
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	if slices.Contains(fields[:], nil) || t.step < 0 || t.step > t.opts.Steps || len(p.levels) != len(t.levels) || len(p.durations) != len(t.durations) {
		return fmt.Errorf("gang: step %d of %d, %d levels and %d durations of %d tasks", t.step, t.opts.Steps, len(p.levels), len(p.durations), len(t.levels))
	}
	copy(t.levels, p.levels)
	copy(t.durations, p.durations)
	t.expected = math.Float64frombits(p.expected)
	if err := t.pods.Restore(ctx, c, t.levels, p.created, p.now); err != nil {
		return err
	}
	return t.prepare(ctx)
}
