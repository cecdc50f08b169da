// Package fused builds networks with forward and backward passes written out over a few kernels,
// in float32 and without allocation.
//
// A network consists of modules, one file for each kind: dense, nodeDense, SAGE and GCN layers,
// norms, activations, pools, and the sources that they read. Towers are stacks of modules; LSTMs
// are stacks of cells. Heads write the results of towers to the outputs.
//
// The kernels are chosen when the program starts: AVX-512 or AVX2 with FMA if the CPU has them;
// otherwise, or with the build tag purego, gonum's BLAS. GODEBUG=cpu.avx512f=off and
// GODEBUG=cpu.avx2=off,cpu.avx512f=off disable the wider ones. AVX-512 and AVX2 give equal bits:
// each element of a matrix product is one chain of fused multiply-adds in the order of the inner
// index, and elementwise passes compute one formula. The bits of gonum differ.
//
// Gradients of a batch are summed within shards of [ShardRows] rows and then over the shards in
// order, so that results do not depend on the number of workers.
package fused

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/team"
)

const (
	// ShardRows is the number of rows whose gradients are summed first. In a network of nodes each
	// node counts as a row, but shards never split an observation.
	ShardRows = 256

	tileRows = 64 // rows that pass through all layers together: their activations fit into a cache
)

// ErrBatch is wrapped by the errors of Forward and Backward about arguments of a wrong length or
// calls in a wrong order.
var ErrBatch = errors.New("fused: invalid batch")

// Network is a [models.Network]. Equal parameters and observations give equal bits in every process
// on one kind of machine. It is not safe for concurrent use; different networks are independent.
type Network struct {
	spec       models.Spec
	params     []models.Param
	k          variant
	towers     []*tower
	free       []*freeHead
	lstms      []*lstm
	cells      []*cell // of all LSTMs
	recurrence recurrence
	transposes []transpose
	nodes      *nodeRows // nil without nodes
	graphs     *graphs   // nil without edges

	stateSize int
	tile      int // rows that pass through all layers together
	shard     int // rows whose gradients are summed first
	minWork   int // [minWork]; tests change it
	rowWork   int // products with parameters in a row's forward pass

	widest, widestHead int // widest rows of gradients of modules, and of heads of nodes

	rows    int       // of the last Forward; 0 before the first
	num     int       // environments in it
	starts  []bool    // of episodes in the last Forward; empty if there were none given
	width   int       // of a row of outputs
	obs     []float32 // copies of input
	outputs []float32
	input   []float32 // of the current Forward, for the workers to copy; nil if obs holds it
	dOut    []float32 // of the current Backward

	beside     int                    // parts of besidePart
	besidePart func(worker, part int) // of the current BackwardBeside
	apart      apart

	groups  []*group
	workers []*worker
	active  int // number of workers for large batches
	team    *team.Team
	stride  int                                         // rows of a part of the current Forward
	before  func(worker, lo, hi int)                    // of the current pass in parts
	after   func(worker, lo, hi int, outputs []float32) // likewise

	balanced bool // groups have about equal work

	// Stored, so that a pass allocates nothing.
	forwardPart, backwardPart, forwardLane, betweenLanes, backwardLane, beforePart, afterPart, shardPart func(worker, part int)
}

var (
	_ models.Network = (*Network)(nil)
	_ models.Skipper = (*Network)(nil)
	_ models.Parter  = (*Network)(nil)
	_ team.Lender    = (*Network)(nil)
)

// New returns the network of spec, with parameters that [models.Init] draws from rng. With a nil
// rng they stay zero, for ReadFrom. The error is that of [models.Spec.Validate].
func New(spec models.Spec, rng *rand.Rand) (*Network, error) {
	return newNetwork(spec, rng, variants()[0])
}

func newNetwork(spec models.Spec, rng *rand.Rand, k variant) (*Network, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("fused: %w", err)
	}
	n := &Network{spec: spec, params: models.NewParams(spec), k: k, width: spec.Outputs(), stateSize: spec.StateSize()}
	n.tile, n.shard, n.minWork = tileRows, ShardRows, minWork
	if spec.Nodes != nil {
		n.tile, n.shard = max(1, tileRows/spec.Nodes.N), max(1, ShardRows/spec.Nodes.N)
	}
	if rng != nil {
		models.Init(n.params, spec, rng)
	}
	n.build()
	n.team, n.forwardPart, n.backwardPart = team.New(), n.computeForward, n.computeBackward
	n.forwardLane, n.betweenLanes, n.backwardLane = n.computeForwardLane, n.computeBetweenLanes, n.computeBackwardLane
	n.beforePart, n.afterPart, n.shardPart = n.callBefore, n.callAfter, n.computeShard
	n.apart.bind(n)
	n.recurrence.bind(n)
	n.SetWorkers(1)
	return n, nil
}

// Kernels returns the name of the kernels in use: "avx512", "avx2" or "gonum".
func (n *Network) Kernels() string { return n.k.name }

// SetWorkers sets the number of goroutines that share large batches; less than one counts as one, the default. Results
// do not depend on it. The goroutines end by themselves soon after the last batch: see [team.Team].
func (n *Network) SetWorkers(workers int) {
	n.active = max(workers, 1)
	n.team.SetWorkers(n.active)
	for len(n.workers) < n.active {
		n.workers = append(n.workers, newWorker(n))
	}
}

// Spec returns the description that n was built from; the caller must not change it.
func (n *Network) Spec() models.Spec { return n.spec }

// Params implements [models.Network]. The arrays stay the same for the life of n.
func (n *Network) Params() []models.Param { return n.params }

// Forward implements [models.Network]. It copies obs. It allocates only if no earlier batch
// had as many rows. An error about edges in obs wraps [models.ErrEdge].
func (n *Network) Forward(obs []float32, rows int) ([]float32, error) {
	return n.forward(obs, 1, rows, nil, nil)
}

// forwardParts is Forward in the parts of [models.Parter].
func (n *Network) forwardParts(obs []float32, rows int, before func(worker, lo, hi int), after func(worker, lo, hi int, outputs []float32)) ([]float32, error) {
	n.before, n.after = before, after
	defer func() { n.before, n.after = nil, nil }()
	if rows > 0 && (n.graphs != nil || len(n.lstms) > 0) { // these read all observations first
		n.callParts(n.beforePart, rows, before != nil)
		n.before = nil
	}
	return n.forward(obs, 1, rows, nil, nil)
}

// callParts calls beforePart or afterPart for all rows.
func (n *Network) callParts(f func(worker, part int), rows int, given bool) {
	if given {
		n.rows = rows
		n.do(team.Blocks(rows, models.PartRows), f)
	}
}

func (n *Network) callBefore(worker, part int) {
	lo, hi := team.Block(part, n.rows, models.PartRows)
	n.before(worker, lo, hi)
}

func (n *Network) callAfter(worker, part int) {
	lo, hi := team.Block(part, n.rows, models.PartRows)
	n.after(worker, lo, hi, n.outputs[lo*n.width:hi*n.width])
}

// Skip implements [models.Skipper].
func (n *Network) Skip(head string) {
	for _, tw := range n.towers {
		tw.skipped = true
	}
	for i, h := range n.spec.Heads {
		if !h.Free && (h.Name != head || head == "") {
			n.need(n.spec.Heads[i].Tower)
		}
	}
}

// need has Forward compute a tower and those that it reads.
func (n *Network) need(tower int) {
	n.towers[tower].skipped = false
	if _, from := n.spec.Source(tower); from >= 0 {
		n.need(from)
	}
}

func (n *Network) forward(obs []float32, steps, num int, state []float32, starts []bool) ([]float32, error) {
	rows := steps * num
	if rows < 1 || len(obs) != rows*n.spec.Inputs {
		return nil, fmt.Errorf("%w: %d numbers for %d rows, want %d for each of at least one row",
			ErrBatch, len(obs), rows, n.spec.Inputs)
	}
	n.rows = 0
	n.grow(rows)
	if n.graphs != nil {
		if err := n.graphs.read(obs, rows); err != nil {
			return nil, fmt.Errorf("fused: %w", err)
		}
	}
	n.rows, n.num = rows, num
	n.keepStarts(starts)
	if len(n.lstms) > 0 {
		copy(n.obs, obs)
		n.forwardLSTMs(state)
	} else {
		n.input = obs // the workers copy it
	}
	n.runForward()
	n.input = nil
	return n.outputs[:rows*n.width], nil
}

// keepStarts copies the starts of episodes for Backward.
func (n *Network) keepStarts(starts []bool) {
	n.starts = n.starts[:0]
	if starts != nil {
		n.starts = append(n.starts, starts...)
	}
}

// Backward implements [models.Network]. It may be called again for other gradients of the same
// outputs; each call overwrites Param.Grad.
func (n *Network) Backward(dOutputs []float32) error { return n.BackwardBeside(dOutputs, 0, nil) }

// BackwardBeside implements [models.Parter].
func (n *Network) BackwardBeside(dOutputs []float32, parts int, f func(worker, part int)) error {
	if n.rows == 0 {
		return fmt.Errorf("%w: Backward without a Forward before it", ErrBatch)
	}
	if want := n.rows * n.width; len(dOutputs) != want {
		return fmt.Errorf("%w: %d gradients for %d outputs", ErrBatch, len(dOutputs), want)
	}
	n.dOut = dOutputs
	for _, l := range n.lstms {
		clear(l.dOutput[:n.rows*l.width])
	}
	n.beside, n.besidePart = parts, f
	n.runBackward()
	n.backwardLSTMs()
	n.dOut, n.besidePart = nil, nil
	return nil
}

// updateTransposes copies the weights that backward passes read transposed.
func (n *Network) updateTransposes() {
	for i := range n.transposes {
		n.updateTranspose(i)
	}
}

func (n *Network) updateTranspose(i int) {
	t := n.transposes[i]
	n.k.transpose(t.dst, t.src, t.rows, t.cols)
}

// Close does nothing and returns nil: a network holds only memory.
func (n *Network) Close() error { return nil }

// WriteTo writes the parameters as [models.WriteParams] does.
func (n *Network) WriteTo(w io.Writer) (int64, error) { return models.WriteParams(w, n.params) }

// ReadFrom reads the parameters as [models.ReadParams] does and changes none if it returns an
// error.
func (n *Network) ReadFrom(r io.Reader) (int64, error) { return models.ReadParams(r, n.params) }
