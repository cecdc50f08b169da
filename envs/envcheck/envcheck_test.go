package envcheck_test

import (
	"context"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
)

func TestToysKeepTheContract(t *testing.T) {
	for _, tc := range []struct {
		name       string
		spec       *envs.Spec
		oneEpisode bool
	}{
		{"Identity", envcheck.Identity(5), false},
		{"Timing terminates", envcheck.Timing(7, 0), true},
		{"Timing is cut off", envcheck.Timing(0, 5), true},
		{"Timing does both at once", envcheck.Timing(5, 5), true},
		{"FixedSequence", envcheck.FixedSequence(3, []int{2, 0, 1}), true},
		{"Placement", envcheck.Placement(8, 50), false},
		{"IdentityBox", envcheck.IdentityBox(2, 0.5), false},
		{"IdentityMultiDiscrete", envcheck.IdentityMultiDiscrete(2, 3), false},
		{"IdentityMultiBinary", envcheck.IdentityMultiBinary(3), false},
		{"LargestNode", envcheck.LargestNode(5, true), false},
		{"Partner", envcheck.Partner(6), false},
		{"Memory", envcheck.Memory(4, 5), false},
		{"RecalledNode", envcheck.RecalledNode(5, 4), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			envcheck.Run(t, tc.spec, envcheck.Options{OneEpisode: tc.oneEpisode})
		})
	}
}

// BenchmarkPlacement measures the design: a placement among 81 nodes, with its mask and its
// 567 features, is to cost at most 1 µs and to allocate nothing.
func BenchmarkPlacement(b *testing.B) {
	v, err := envs.NewVec(envcheck.Placement(81, 2000), 1, envs.VecOptions{Autoreset: envs.SameStep})
	if err != nil {
		b.Fatal(err)
	}
	defer v.Close()
	ctx := context.Background()
	batch, err := v.Reset(ctx, envs.VecResetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	action := []float32{0}
	step := func() {
		for i := range batch.Mask { // first fit, from where the last pod went
			n := (int(action[0]) + 1 + i) % len(batch.Mask)
			if batch.Mask[n] {
				action[0] = float32(n)
				break
			}
		}
		if batch, err = v.Step(ctx, action); err != nil {
			b.Fatal(err)
		}
	}
	for range 10_000 { // so that slices have grown
		step()
	}
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}
