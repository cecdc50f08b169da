package gpuworkload

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// TestDeclaredLaw compares the declared law with frequencies of drawn pods, within five standard errors,
// and with a share worked by hand.
func TestDeclaredLaw(t *testing.T) {
	s, err := New(Config{ReferenceSeed: -1, NumNodes: 64, LoadEnd: 1.3, Law: PublishedLaw()})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	law := s.gen.list(rng, func(models string) bool { return models != "G3" })
	declared := map[gpushare.Shape]float64{}
	total := 0.0
	for _, kind := range law.declared(s.Catalogue) {
		declared[kind.Shape] = float64(kind.Count) / declaredPods
		total += declared[kind.Shape]
		if kind.Models == "G3" {
			t.Errorf("%v is declared, but no node has a G3", kind.Shape)
		}
	}
	if math.Abs(total-1) > 1e-3 {
		t.Errorf("the declared parts sum to %v", total)
	}
	// 13.35 % of the pods have no GPU, and 364 of 1,048 published ones of these ask for 12.5 cores.
	if got, want := declared[gpushare.Shape{MilliCPU: 12500}], 0.1335*364/1048; math.Abs(got-want) > 1e-6 {
		t.Errorf("%v of the pods ask for 12.5 cores and no GPU, want %v", got, want)
	}
	const n = 300_000
	drawn := map[gpushare.Shape]float64{}
	for range n {
		shape := s.Catalogue.Classes[law.draw(rng)].Shape
		shape.MemoryMiB = 0
		drawn[shape] += 1. / n
	}
	for shape, want := range drawn {
		if p := declared[shape]; math.Abs(p-want) > 5*math.Sqrt(want/n)+1e-6 {
			t.Errorf("%v: declared %v, drawn %v", shape, p, want)
		}
	}
}

// TestDeclaredOutlookKnowsNoFuture: instances of one law and different pods have equal declared outlooks.
// Outlooks of the pods themselves differ.
func TestDeclaredOutlookKnowsNoFuture(t *testing.T) {
	outlook := func(declared bool, end float64) *Outlook {
		s, err := New(Config{ReferenceSeed: -1, NumNodes: 64, LoadEnd: end, Law: PublishedLaw(), Declared: declared})
		if err != nil {
			t.Fatal(err)
		}
		var in Instance
		s.Draw(t.Context(), 7, &in) // the law is drawn before the pods, so that it does not depend on how many there are
		return in.Outlook
	}
	if !reflect.DeepEqual(outlook(true, 0.5), outlook(true, 1.3)) {
		t.Error("declared outlooks of one law differ")
	}
	if reflect.DeepEqual(outlook(false, 0.5), outlook(false, 1.3)) {
		t.Error("outlooks of different pods are equal")
	}
}
