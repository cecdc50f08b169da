package fused

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/internal/oracle"
)

// TestParts: whatever the network and the number of workers, a pass in parts gives the bits of Forward and Backward.
// before sets the observations of each row once before they are read, after sees its outputs once, and each part beside
// Backward is called once.
func TestParts(t *testing.T) {
	v := variants()[0]
	for name, spec := range oracle.Specs() {
		if spec.StateSize() > 0 {
			continue
		}
		net := withBiases(t, spec, 1, v)
		net.minWork = 0
		for _, rows := range []int{1, 63, 300, 600} {
			net.SetWorkers(1)
			want := passBits(t, net, rows)
			obs := slices.Clone(net.obs[:rows*spec.Inputs])
			for _, workers := range []int{1, 2, 8} {
				net.SetWorkers(workers)
				given, seen := make([]float32, len(obs)), make([]float32, rows*spec.Outputs())
				before := make([]atomic.Int64, rows)
				after := make([]atomic.Int64, rows)
				out, err := net.forwardParts(given, rows, func(_, lo, hi int) {
					copy(given[lo*spec.Inputs:hi*spec.Inputs], obs[lo*spec.Inputs:])
					for i := lo; i < hi; i++ {
						before[i].Add(1)
					}
				}, func(_, lo, hi int, outputs []float32) {
					if hi-lo > models.PartRows {
						t.Errorf("%s: a part of %d rows, want at most %d", name, hi-lo, models.PartRows)
					}
					copy(seen[lo*spec.Outputs():hi*spec.Outputs()], outputs)
					for i := lo; i < hi; i++ {
						after[i].Add(1)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				for i := range rows {
					if b, a := before[i].Load(), after[i].Load(); b != 1 || a != 1 {
						t.Fatalf("%s, %d rows, %d workers: row %d was prepared %d and used %d times, want once", name, rows, workers, i, b, a)
					}
				}
				if !slices.Equal(bitsOf([][]float32{out}...), bitsOf([][]float32{seen}...)) {
					t.Errorf("%s, %d rows, %d workers: after has seen other outputs", name, rows, workers)
				}
				var beside [5]atomic.Int64
				for _, p := range net.Params() {
					for i := range p.Grad {
						p.Grad[i] = float32(workers)
					}
				}
				if err := net.BackwardBeside(oracle.Normal(len(out), 3), len(beside), func(_, part int) { beside[part].Add(1) }); err != nil {
					t.Fatal(err)
				}
				for part := range beside {
					if n := beside[part].Load(); n != 1 {
						t.Errorf("%s: part %d beside Backward was called %d times, want once", name, part, n)
					}
				}
				if !slices.Equal(bitsOf(append(grads(net.Params()), out)...), want) {
					t.Errorf("%s, %d rows, %d workers: a pass in parts gives other bits", name, rows, workers)
				}
			}
		}
	}
}

// TestForwardBackward: whatever the network and the number of workers, a pass whose tiles go forward and backward at once
// gives the bits of Forward and Backward. It evaluates each row once, and other passes can follow.
func TestForwardBackward(t *testing.T) {
	v := variants()[0]
	for name, spec := range oracle.Specs() {
		if spec.StateSize() > 0 {
			continue
		}
		net := withBiases(t, spec, 1, v)
		net.minWork = 0
		if net.nodes == nil {
			net.tile, net.shard = 16, 32 // so that two workers share 600 rows
		}
		k := spec.Outputs()
		for _, rows := range []int{1, 63, 300, 600} {
			net.SetWorkers(1)
			want := passBits(t, net, rows)
			obs, d := slices.Clone(net.obs[:rows*spec.Inputs]), oracle.Normal(rows*k, 3)
			for _, workers := range []int{1, 2, 3, 8} {
				net.SetWorkers(workers)
				given, seen, dOut := make([]float32, len(obs)), make([]float32, rows*k), make([]float32, rows*k)
				var passed, beside atomic.Int64
				err := net.ForwardBackward(given, dOut, rows, func(_, lo, hi int) {
					copy(given[lo*spec.Inputs:hi*spec.Inputs], obs[lo*spec.Inputs:])
				}, func(_, lo, hi int, outputs []float32) {
					copy(seen[lo*k:hi*k], outputs)
					copy(dOut[lo*k:hi*k], d[lo*k:])
					passed.Add(int64(hi - lo))
				}, 5, func(_, part int) {
					if n := passed.Load(); n != int64(rows) {
						t.Errorf("%s: part %d began after %d rows, want %d", name, part, n, rows)
					}
					beside.Add(1)
				})
				if err != nil {
					t.Fatal(err)
				}
				if n := beside.Load(); n != 5 {
					t.Errorf("%s, %d rows, %d workers: %d parts, want 5", name, rows, workers, n)
				}
				if !slices.Equal(bitsOf(append(grads(net.Params()), seen)...), want) {
					t.Errorf("%s, %d rows, %d workers: a pass forward and backward at once gives other bits", name, rows, workers)
				}
			}
			net.SetWorkers(1)
			if !slices.Equal(passBits(t, net, rows), want) {
				t.Errorf("%s, %d rows: Forward and Backward give other bits after ForwardBackward", name, rows)
			}
		}
	}
}

// TestShardsApart: with more workers than groups the gradients of shards are kept apart, unless they are too large.
func TestShardsApart(t *testing.T) {
	spec := models.ActorCritic(4, 2, []int{64, 64}, models.Tanh)
	for _, tc := range []struct {
		workers, rows int
		want          bool
	}{{8, 1024, true}, {2, 1024, false}, {8, ShardRows, false}, {8, 1 << 16, false}} {
		net := withBiases(t, spec, 1, variants()[0])
		net.SetWorkers(tc.workers)
		passBits(t, net, tc.rows)
		if net.apart.used != tc.want {
			t.Errorf("%d workers, %d rows: shards apart: %v, want %v", tc.workers, tc.rows, net.apart.used, tc.want)
		}
	}
}
