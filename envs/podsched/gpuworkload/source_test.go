package gpuworkload_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/gpuworkload"
)

// TestArrivalsWithinTheClock: 400,000 pods on one node at a hundredth of its capacity would come in thousands of years.
func TestArrivalsWithinTheClock(t *testing.T) {
	src, err := gpuworkload.New(gpuworkload.Config{ReferenceSeed: -1, Law: gpuworkload.PublishedLaw(), NumNodes: 1, Timed: true, NumPods: 400_000, Load: 0.01, MaxDuration: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	var in gpuworkload.Instance
	src.Draw(t.Context(), 1, &in)
	first, last := in.Arrivals[0].At, in.Arrivals[len(in.Arrivals)-1].At
	if half := cluster.MaxTime / 2; first < 0 || last > half || last < half-half/100 {
		t.Errorf("pods arrive from %v to %v, want 0 to %v", first, last, half)
	}
}

// TestGenerated draws default instances and compares their composition with the published one:
// parts of 20,000 pods within five standard deviations, and the counts of the node list.
func TestGenerated(t *testing.T) {
	nodes := gpuworkload.GenerateNodes()
	gpus := map[string]int{}
	for i := range nodes {
		gpus[nodes[i].Model] += nodes[i].GPUs
	}
	want := map[string]int{"G2": 4392, "T4": 842, "G3": 312, "P100": 265, "V100M32": 204, "V100M16": 195, "A10": 2}
	if d := cmp.Diff(want, gpus); d != "" || len(nodes) != 1213 {
		t.Errorf("%d nodes, want 1213; GPUs (-want +got):\n%s", len(nodes), d)
	}
	law := gpuworkload.PublishedLaw()
	law.ConstrainedLow, law.ConstrainedHigh = 0.2, 0.2
	src, err := gpuworkload.New(gpuworkload.Config{ReferenceSeed: -1, LoadEnd: gpushare.DefaultRatio, Law: law})
	if err != nil {
		t.Fatal(err)
	}
	var in gpuworkload.Instance
	var n, cpu, sharing, multi, bound float64
	for seed := range uint64(2) {
		src.Draw(t.Context(), seed, &in)
		for _, a := range in.Arrivals {
			c := &src.Catalogue.Classes[a.Class]
			n++
			switch {
			case c.GPUs == 0:
				cpu++
			case c.Sharing():
				sharing++
			case c.GPUs > 1:
				multi++
			}
			if c.Models != "" {
				bound++
			}
		}
	}
	check := func(what string, got, of, p float64) {
		t.Helper()
		if sd := 5 * math.Sqrt(of*p*(1-p)); got < of*p-sd || got > of*p+sd {
			t.Errorf("%s: %v of %v pods, want %v within %v", what, got, of, of*p, sd)
		}
	}
	check("without GPU", cpu, n, 1088./8152)
	check("sharing", sharing, n-cpu, 3078./7064)
	check("two GPUs and more", multi, n-cpu, 75./7064)
	check("bound to models", bound, n-cpu, 0.2)
}
