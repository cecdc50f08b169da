package gpuworkload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// The published cluster, by node shape: 1,213 nodes with 6,212 GPUs.
//
// Source of this and of the tables below: the openb trace of Weng et al., "Beware of
// Fragmentation", USENIX ATC 2023: counts of its node list, and of the shapes that make up 97 %
// of its default pod list.
var publishedNodes = []struct {
	count     int
	model     string
	gpus      int
	milliCPU  int64
	memoryMiB int64
}{
	{549, "G2", 8, 96000, 393216},
	{387, "T4", 2, 104000, 524288},
	{107, "P100", 2, 16000, 122880},
	{39, "G3", 8, 128000, 786432},
	{28, "V100M16", 4, 32000, 131072},
	{22, "P100", 2, 64000, 262144},
	{21, "V100M32", 8, 96000, 786432},
	{19, "V100M16", 1, 8000, 32768},
	{17, "T4", 4, 96000, 393216},
	{9, "V100M32", 4, 48000, 376832},
	{7, "V100M16", 8, 64000, 262144},
	{3, "P100", 1, 8000, 61440},
	{2, "P100", 2, 8000, 61440},
	{2, "A10", 1, 128000, 1048576},
	{1, "V100M16", 8, 82000, 344064},
}

// GenerateNodes returns a cluster composed like the published one.
func GenerateNodes() []gpushare.Node {
	var nodes []gpushare.Node
	for _, s := range publishedNodes {
		for range s.count {
			nodes = append(nodes, gpushare.Node{
				Name: fmt.Sprintf("node-%04d", len(nodes)), MilliCPU: s.milliCPU, MemoryMiB: s.memoryMiB, GPUs: s.gpus, Model: s.model,
			})
		}
	}
	return nodes
}

// Kinds of generated pods.
const (
	kindCPU = iota
	kindSharing
	kindOne
	kindMulti
	numPodKinds
)

// Law holds the parts of generated pods of each kind.
type Law struct {
	CPUOnly                         float64 // of the pods: without GPUs
	Sharing, MultiGPU               float64 // of the pods with GPUs: sharing one; with two or more
	ConstrainedLow, ConstrainedHigh float64 // of the pods with GPUs, bound to models; each list draws a part from this range
}

// PublishedLaw returns the parts of the default list, with up to 0.4 bound to models.
func PublishedLaw() Law {
	return Law{
		CPUOnly: 0.1335,                   // 1088 of 8152 pods
		Sharing: 0.4357, MultiGPU: 0.0106, // 3078 and 75 of 7064 pods with GPUs
		ConstrainedHigh: 0.4,
	}
}

type weightedShape struct {
	weight float64
	shape  gpushare.Shape
}

// publishedShapes are the shapes of pods, by kind, with their counts.
var publishedShapes = [numPodKinds][]weightedShape{
	kindCPU: {
		{364, cpuShape(12500, 57344)}, {284, cpuShape(32000, 49152)}, {163, cpuShape(8000, 30517)}, {120, cpuShape(15400, 51200)},
		{95, cpuShape(16500, 51200)}, {11, cpuShape(11400, 57344)}, {11, cpuShape(8000, 15625)},
	},
	kindSharing: {
		{1047, gpuShape(1, 810, 3152, 5600)}, {388, gpuShape(1, 470, 11908, 47104)}, {360, gpuShape(1, 470, 8000, 30517)},
		{237, gpuShape(1, 650, 11908, 47104)}, {111, gpuShape(1, 320, 4000, 22888)}, {84, gpuShape(1, 230, 4000, 30517)},
		{78, gpuShape(1, 320, 4000, 15258)}, {75, gpuShape(1, 590, 3152, 5600)}, {72, gpuShape(1, 320, 8000, 30517)},
		{72, gpuShape(1, 550, 4152, 10600)}, {53, gpuShape(1, 160, 4000, 15258)}, {51, gpuShape(1, 460, 6000, 6144)},
		{45, gpuShape(1, 370, 4152, 10600)}, {43, gpuShape(1, 320, 4000, 30517)}, {31, gpuShape(1, 810, 4152, 10600)},
		{29, gpuShape(1, 460, 6000, 12288)}, {26, gpuShape(1, 230, 4000, 22888)}, {24, gpuShape(1, 220, 4000, 15258)},
		{22, gpuShape(1, 320, 1000, 2048)}, {20, gpuShape(1, 160, 6000, 22888)}, {19, gpuShape(1, 220, 8000, 30517)},
		{18, gpuShape(1, 480, 4000, 22888)}, {18, gpuShape(1, 230, 8000, 30517)}, {18, gpuShape(1, 460, 6000, 18432)},
		{12, gpuShape(1, 650, 8000, 30517)}, {12, gpuShape(1, 230, 4000, 15258)}, {9, gpuShape(1, 110, 4000, 22888)},
	},
	kindOne: {
		{857, gpuShape(1, 1000, 11300, 49152)}, {534, gpuShape(1, 1000, 11400, 48128)}, {470, gpuShape(1, 1000, 3152, 5600)},
		{255, gpuShape(1, 1000, 18708, 64512)}, {195, gpuShape(1, 1000, 9810, 41560)}, {158, gpuShape(1, 1000, 12000, 24576)},
		{158, gpuShape(1, 1000, 15700, 58368)}, {153, gpuShape(1, 1000, 11908, 47104)}, {108, gpuShape(1, 1000, 16000, 32768)},
		{104, gpuShape(1, 1000, 8000, 16384)}, {104, gpuShape(1, 1000, 4000, 24576)}, {99, gpuShape(1, 1000, 12000, 16384)},
		{93, gpuShape(1, 1000, 14200, 58368)}, {84, gpuShape(1, 1000, 24200, 93184)}, {65, gpuShape(1, 1000, 11400, 77824)},
		{55, gpuShape(1, 1000, 8000, 32768)}, {51, gpuShape(1, 1000, 11900, 77824)}, {44, gpuShape(1, 1000, 12000, 15360)},
		{41, gpuShape(1, 1000, 8200, 33792)}, {40, gpuShape(1, 1000, 4000, 31250)}, {36, gpuShape(1, 1000, 15200, 80896)},
		{33, gpuShape(1, 1000, 16000, 65536)}, {27, gpuShape(1, 1000, 16400, 125952)}, {15, gpuShape(1, 1000, 1000, 6144)},
	},
	kindMulti: {
		{16, gpuShape(2, 1000, 16000, 65536)}, {15, gpuShape(4, 1000, 32200, 132096)},
		{22, gpuShape(8, 1000, 88000, 327680)}, {22, gpuShape(8, 1000, 64200, 263168)},
	},
}

func cpuShape(milliCPU, memoryMiB int64) gpushare.Shape { return gpuShape(0, 0, milliCPU, memoryMiB) }

func gpuShape(gpus, milliGPU int32, milliCPU, memoryMiB int64) gpushare.Shape {
	return gpushare.Shape{MilliCPU: milliCPU, MemoryMiB: memoryMiB, GPUs: gpus, MilliGPU: milliGPU}
}

// modelSets are the sets of models that generated pods are bound to, with approximate frequencies. Each episode varies
// the weights, so that no two lists are alike.
var modelSets = []struct {
	weight float64
	models string
}{
	{50, "T4"}, {16, "G2"}, {14, "P100"}, {8, "V100M16|V100M32"}, {4, "P100|V100M16|V100M32"},
	{3, "G2|P100|T4|V100M16|V100M32"}, {3, "G3"}, {1, "V100M16"}, {1, "V100M32"},
}

// modelSpread is the standard deviation of the logarithm of the factor that varies a weight.
const modelSpread = 0.5

// Distribution of the durations of pods: lognormal, fitted to the quartiles and the ninth decile of the default list.
const (
	durationMedian = 540  // seconds
	durationSpread = 2.05 // standard deviation of the logarithm
)

// generator draws pods.
type generator struct {
	law     Law
	ids     [numPodKinds][]int32   // classes of the shapes in a catalogue
	bound   [numPodKinds][][]int32 // … bound to each of modelSets
	weights [numPodKinds]cumulative
}

// Shapes returns every generated shape.
func Shapes() []gpushare.Shape {
	var all []gpushare.Shape
	for _, shapes := range publishedShapes {
		for _, w := range shapes {
			all = append(all, w.shape)
			for _, set := range modelSets {
				if s := w.shape; s.GPUs > 0 {
					s.Models = set.models
					all = append(all, s)
				}
			}
		}
	}
	return all
}

func newGenerator(law Law, cat *gpushare.Catalogue) *generator {
	g := &generator{law: law}
	for kind, shapes := range publishedShapes {
		g.bound[kind] = make([][]int32, len(modelSets))
		var weights []float64
		for _, w := range shapes {
			weights = append(weights, w.weight)
			g.ids[kind] = append(g.ids[kind], cat.Of[w.shape])
			for k, set := range modelSets {
				if s := w.shape; s.GPUs > 0 {
					s.Models = set.models
					g.bound[kind][k] = append(g.bound[kind][k], cat.Of[s])
				}
			}
		}
		g.weights[kind] = newCumulative(weights)
	}
	return g
}

// list is the distribution of one episode's pods.
type list struct {
	*generator
	kinds       cumulative
	sets        cumulative
	constrained float64
}

// list draws a distribution. Pods are bound only to sets of models that usable accepts.
func (g *generator) list(rng *rand.Rand, usable func(models string) bool) *list {
	o := g.law
	l := &list{generator: g, constrained: o.ConstrainedLow + rng.Float64()*(o.ConstrainedHigh-o.ConstrainedLow)}
	withGPU := 1 - o.CPUOnly
	l.kinds = newCumulative([]float64{o.CPUOnly, withGPU * o.Sharing, withGPU * (1 - o.Sharing - o.MultiGPU), withGPU * o.MultiGPU})
	var weights []float64
	total := 0.0
	for _, set := range modelSets {
		w := set.weight * math.Exp(modelSpread*rng.NormFloat64())
		if !usable(set.models) {
			w = 0
		}
		weights = append(weights, w)
		total += w
	}
	if total == 0 {
		l.constrained = 0
	} else {
		l.sets = newCumulative(weights)
	}
	return l
}

// draw returns the class of a pod.
func (l *list) draw(rng *rand.Rand) int32 {
	kind := l.kinds.draw(rng)
	k := l.weights[kind].draw(rng)
	if kind != kindCPU && rng.Float64() < l.constrained {
		return l.bound[kind][l.sets.draw(rng)][k]
	}
	return l.ids[kind][k]
}

// declaredPods is the number of pods in a declared distribution.
const declaredPods = 1_000_000

// declared returns the kinds of pods of the distribution and their counts among declaredPods, rounded.
func (l *list) declared(cat *gpushare.Catalogue) []gpushare.TypicalPod {
	parts := map[gpushare.Shape]float64{}
	add := func(class int32, part float64) {
		s := cat.Classes[class].Shape
		s.MemoryMiB = 0
		parts[s] += part
	}
	for kind := range numPodKinds {
		for k, id := range l.ids[kind] {
			part, bound := l.kinds.part(kind)*l.weights[kind].part(k), l.constrained
			if kind == kindCPU {
				bound = 0
			}
			add(id, part*(1-bound))
			for set := range l.sets {
				if bound > 0 {
					add(l.bound[kind][set][k], part*bound*l.sets.part(set))
				}
			}
		}
	}
	var kinds []gpushare.TypicalPod
	for s, part := range parts {
		if n := int(math.Round(declaredPods * part)); n > 0 {
			kinds = append(kinds, gpushare.TypicalPod{Shape: s, Count: n})
		}
	}
	return kinds
}

// duration draws the duration of a pod in seconds.
func duration(rng *rand.Rand) float64 {
	return durationMedian * math.Exp(durationSpread*rng.NormFloat64())
}

// cumulative draws indices by weights.
type cumulative []float64

func newCumulative(weights []float64) cumulative {
	c := make(cumulative, len(weights))
	sum := 0.0
	for i, w := range weights {
		sum += w
		c[i] = sum
	}
	return c
}

func (c cumulative) draw(rng *rand.Rand) int {
	x := rng.Float64() * c[len(c)-1]
	for i, sum := range c {
		if x < sum {
			return i
		}
	}
	return len(c) - 1
}

// part returns the probability of index i.
func (c cumulative) part(i int) float64 {
	before := 0.0
	if i > 0 {
		before = c[i-1]
	}
	return (c[i] - before) / c[len(c)-1]
}

// hasModel reports whether one of the models of a gpu_spec is among names.
func hasModel(spec string, names map[string]bool) bool {
	for m := range strings.SplitSeq(spec, "|") {
		if names[m] {
			return true
		}
	}
	return false
}
