package distribution

import (
	"github.com/kubernasium/kubernasium/agents/categorical"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// Rows are the distributions of several rows of outputs, for Discrete actions. Where there are few actions they are
// several times faster than a [Distribution] for each row, with the same numbers.
type Rows struct {
	*categorical.Rows
	from, outputs int
}

// fewActions bounds the actions for which Rows are faster. With more, the vectors of a single row are full.
const fewActions = 16

// NewRows returns the distributions of at most the given number of rows, or nil if one Distribution after the other
// is better.
func NewRows(act space.Space, spec models.Spec, rows int) *Rows {
	a, ok := act.(space.Discrete)
	if !ok || a.N > fewActions {
		return nil
	}
	from, _ := spec.Head(ActionHead)
	return &Rows{categorical.NewRows(a.N, rows), from, spec.Outputs()}
}

// Condition reads count rows of outputs and their masks, which must stay as they are while the distributions are in use.
// It reports whether all permitted logits are finite and each row permits an action. If not, no other method may be
// called.
func (d *Rows) Condition(out []float32, count int, mask []bool) bool {
	return d.Rows.Condition(out[d.from:], d.outputs, count, mask)
}

// Grad adds to dOut, a row, the gradient of dLogProb·LogProb(r, action) + dEntropy·Entropy(r).
func (d *Rows) Grad(r int, dOut []float32, action int, dLogProb, dEntropy float64) {
	d.Rows.Grad(r, dOut[d.from:], action, dLogProb, dEntropy)
}
