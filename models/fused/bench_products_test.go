package fused

import (
	"fmt"
	"testing"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/internal/oracle"
)

// BenchmarkProducts measures the three matrix products of a dense layer of 64 results, in tiles and
// shards as passes of a network compute them. tools/bench_gemm.py compares them with other libraries.
func BenchmarkProducts(b *testing.B) {
	const out = 64
	for _, v := range variants() {
		for _, rows := range []int{64, 256, 2048, 16384} {
			for _, in := range []int{4, 64, 81, 512} {
				l, n := benchDense(b, v, in, out)
				x, y, d, dx := aligned(rows*in), aligned(rows*out), aligned(rows*out), aligned(tileRows*in)
				copy(x, oracle.Normal(len(x), 1))
				copy(d, oracle.Normal(len(d), 2))
				w := n.workers[0]
				bench := func(name string, tile func(), end func()) {
					b.Run(fmt.Sprintf("%s/rows=%d/in=%d/%s", v.name, rows, in, name), func(b *testing.B) {
						for b.Loop() {
							for lo := 0; lo < rows; lo += n.shard {
								w.set, w.first = true, lo == 0
								for w.lo = lo; w.lo < min(lo+n.shard, rows); w.lo += n.tile {
									w.rows = min(n.tile, rows-w.lo)
									w.items = w.rows
									tile()
									w.set = false
								}
								end()
							}
						}
						flops := 2 * float64(rows*in*out)
						b.ReportMetric(flops*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
					})
				}
				bench("forward", func() { // y = x·W + b
					l.affine(w, x[w.lo*in:], w.rows, y[w.lo*out:], out)
				}, func() {})
				bench("weight", func() { // W's gradient: xᵀ·d
					w.addWeight(l.weight, x[w.lo*in:], d[w.lo*out:], out)
				}, func() {
					if !w.first {
						n.k.add(l.weight.grad, w.grads[l.weight.index])
					}
				})
				bench("input", func() { // x's gradient: d·Wᵀ
					if w.lo == 0 {
						n.k.transpose(l.transposed, l.weight.value, in, out)
					}
					n.k.gemm(w.rows, in, out, matrix{d[w.lo*out:], out, 1}, l.transposed, in, dx, in, nil, 0)
				}, func() {})
			}
		}
	}
}

// benchDense returns a dense layer and a network that has it.
func benchDense(b *testing.B, v variant, in, out int) (*dense, *Network) {
	n := withBiases(b, models.Spec{
		Inputs: in,
		Towers: []models.Tower{{Name: "t", Hidden: []int{out}, Activation: models.Tanh}},
		Heads:  []models.Head{{Name: "h", Size: 1, Gain: 1}},
	}, 1, v)
	l := newDense(&cursor{params: n.params}, true)
	return &l, n
}
