package gpushare

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// openbInventory is the inventory of nodes with the typical pods of the published default list.
func openbInventory(t *testing.T, nodes ...Node) (*Inventory, *Catalogue) {
	t.Helper()
	pods, err := ReadPods(filepath.Join(openb(t), "openb_pod_list_default.csv"))
	if err != nil {
		t.Fatal(err)
	}
	cat, err := NewCatalogue(nodes, pods)
	if err != nil {
		t.Fatal(err)
	}
	b := &Inventory{}
	b.Reset(nodes, cat, NewFragmenter(TypicalPods(Kinds(pods)), len(pods), &cat.Models))
	return b, cat
}

// use takes cpu of node 0 and leaves free thousandths on its devices.
func use(b *Inventory, cpu int64, free ...int32) {
	for d, f := range free {
		if f < WholeGPU {
			c := newClass(gpuShape(1, WholeGPU-f, 0, 0), 0, &ModelTable{})
			b.Place(&c, 0, 1<<d)
		}
	}
	c := newClass(cpuShape(cpu, 0), 0, &ModelTable{})
	b.Place(&c, 0, 0)
}

// TestFragmentation compares F with the values on record for the default list.
func TestFragmentation(t *testing.T) {
	for _, tc := range []struct {
		node Node
		want float64
	}{
		{Node{Name: "a", MilliCPU: 96000, GPUs: 8, Model: "G2"}, 1087.8187},
		{Node{Name: "a", MilliCPU: 104000, GPUs: 2, Model: "T4"}, 271.9547},
		{Node{Name: "a", MilliCPU: 16000, GPUs: 2, Model: "P100"}, 359.2583},
		{Node{Name: "a", MilliCPU: 8000, GPUs: 1, Model: "V100M16"}, 605.2022},
		{Node{Name: "a", MilliCPU: 2000, GPUs: 2, Model: "G2"}, 2000},
	} {
		b, _ := openbInventory(t, tc.node)
		if got := b.Frag.Amount(b.Wasted); math.Abs(got-tc.want) > 5e-5 {
			t.Errorf("F(%+v) = %.4f, want %.4f", tc.node, got, tc.want)
		}
		if got := b.Frag.reference(tc.node.MilliCPU, b.Nodes[0].Model, b.sorted); math.Abs(got-tc.want) > 5e-5 {
			t.Errorf("F(%+v) by the reference's sums = %.4f, want %.4f", tc.node, got, tc.want)
		}
	}
	b, _ := openbInventory(t, Node{Name: "a", MilliCPU: 20000, MemoryMiB: 1 << 20, GPUs: 4, Model: "G2"})
	use(b, 0, 190, 1000, 530, 0)
	if got := b.Frag.Amount(b.Wasted); math.Abs(got-767.4710) > 5e-5 {
		t.Errorf("F(20000m; [190,1000,530,0]; G2) = %.4f, want 767.4710", got)
	}
}

// TestTypicalPods compares with the counts on record: 35 of 91 groups of the default list.
func TestTypicalPods(t *testing.T) {
	pods, err := ReadPods(filepath.Join(openb(t), "openb_pod_list_default.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if got := len(TypicalPods(Kinds(pods))); got != 35 {
		t.Errorf("%d typical pods, want 35", got)
	}
}

// TestReferenceWorkload compares with the orders on record for two seeds.
func TestReferenceWorkload(t *testing.T) {
	dir := openb(t)
	nodes, err := ReadNodes(filepath.Join(dir, "openb_node_list_gpu_node.csv"))
	if err != nil {
		t.Fatal(err)
	}
	pods, err := ReadPods(filepath.Join(dir, "openb_pod_list_default.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		seed             int64
		arrivals, clones []string
		last             string
		nodes            []string
	}{
		{seed: 42, arrivals: []string{"0255", "1685", "6784", "4463", "0602"}, clones: []string{"3888", "5689", "2936"}, last: "5877", nodes: []string{"0260", "0858", "0619"}},
		{seed: 43, arrivals: []string{"2283", "7248", "5897", "4175", "5883"}, nodes: []string{"0764", "0033", "1085"}},
	} {
		w := ReferenceWorkload(nodes, pods, tc.seed, DefaultRatio)
		name := func(i int) string { return w.Arrivals[i].Name[len("openb-pod-"):] }
		for i, want := range tc.arrivals {
			if name(i) != want {
				t.Errorf("seed %d: arrival %d is %s, want %s", tc.seed, i, name(i), want)
			}
		}
		for i, want := range tc.clones {
			if got := name(len(pods) + i); got != want {
				t.Errorf("seed %d: clone %d is %s, want %s", tc.seed, i, got, want)
			}
		}
		if got := name(len(w.Arrivals) - 1); tc.last != "" && got != tc.last {
			t.Errorf("seed %d: the last arrival is %s, want %s", tc.seed, got, tc.last)
		}
		for i, want := range tc.nodes {
			if got := w.Nodes[i].Name[len("openb-node-"):]; got != want {
				t.Errorf("seed %d: node %d is %s, want %s", tc.seed, i, got, want)
			}
		}
	}
	run, err := Reproduce(nodes, pods, "FGD", 42, DefaultRatio)
	if err != nil {
		t.Fatal(err)
	}
	// The end of the reference's own log.
	if run.MilliGPU != 5919410 || run.MilliCPU != 89928302 || run.MemoryMiB != 313757356 || run.Pods != 10866 || run.Failed != 2532 {
		t.Errorf("FGD with seed 42 ends at %d milli-GPU, %d milli-CPU, %d MiB, %d of %d pods failed", run.MilliGPU, run.MilliCPU, run.MemoryMiB, run.Failed, run.Pods)
	}
	small := ReferenceWorkload(nodes[:600], pods, 42, 0.5)
	if r, most := RequestedMilliGPU(small.Arrivals), 0.5*float64(capacity(nodes[:600])); float64(r) > most || len(small.Arrivals) >= len(pods) {
		t.Errorf("deflated to %d pods that request %d, want fewer than %d and at most %v", len(small.Arrivals), r, len(pods), most)
	}
}

// TestScores compares with the scores on record.
func TestScores(t *testing.T) {
	part := Node{Name: "a", MilliCPU: 20000, MemoryMiB: 1 << 20, GPUs: 4, Model: "G2"}
	empty := Node{Name: "a", MilliCPU: 96000, MemoryMiB: 1 << 20, GPUs: 8, Model: "G2"}
	for _, tc := range []struct {
		name  string
		node  Node
		free  []int32
		pod   Shape
		score scoreFunc
		want  int64
		on    uint64 // devices; 0: not on record
	}{
		{"FGD, 0.81", part, []int32{190, 1000, 530, 0}, gpuShape(1, 810, 3152, 0), fgd, 48, 1 << 1},
		{"BestFit, 0.81", part, []int32{190, 1000, 530, 0}, gpuShape(1, 810, 3152, 0), BestFit, 87, 1 << 1},
		{"DotProd, 0.81", part, []int32{190, 1000, 530, 0}, gpuShape(1, 810, 3152, 0), dotProd, 98, 1 << 1},
		{"GpuPacking, 0.81", part, []int32{190, 1000, 530, 0}, gpuShape(1, 810, 3152, 0), gpuPacking, 49, 1 << 1},
		{"FGD, 0.47", part, []int32{190, 1000, 530, 0}, gpuShape(1, 470, 11908, 0), fgd, 47, 1 << 2},
		{"BestFit, 0.47", part, []int32{190, 1000, 530, 0}, gpuShape(1, 470, 11908, 0), BestFit, 89, 1 << 2},
		{"DotProd, 0.47", part, []int32{190, 1000, 530, 0}, gpuShape(1, 470, 11908, 0), dotProd, 98, 1 << 2},
		{"GpuPacking, 0.47", part, []int32{190, 1000, 530, 0}, gpuShape(1, 470, 11908, 0), gpuPacking, 95, 1 << 2},
		{"FGD, 1", part, []int32{190, 1000, 530, 0}, gpuShape(1, 1000, 11300, 0), fgd, 53, 1 << 1},
		{"BestFit, 1", part, []int32{190, 1000, 530, 0}, gpuShape(1, 1000, 11300, 0), BestFit, 92, 1 << 1},
		{"DotProd, 1", part, []int32{190, 1000, 530, 0}, gpuShape(1, 1000, 11300, 0), dotProd, 97, 1 << 1},
		{"GpuPacking, 1", part, []int32{190, 1000, 530, 0}, gpuShape(1, 1000, 11300, 0), gpuPacking, 49, 1 << 1},
		{"FGD, 0.81 on an empty node", empty, nil, gpuShape(1, 810, 3152, 0), fgd, 48, 1},
		{"FGD, 0.47 on an empty node", empty, nil, gpuShape(1, 470, 11908, 0), fgd, 42, 1},
		{"FGD, 1 on an empty node", empty, nil, gpuShape(1, 1000, 11300, 0), fgd, 53, 1},
		{"BestFit, 0.81 on an empty node", empty, nil, gpuShape(1, 810, 3152, 0), BestFit, 18, 1},
		{"BestFit, 0.47 on an empty node", empty, nil, gpuShape(1, 470, 11908, 0), BestFit, 20, 1},
		{"BestFit, 1 on an empty node", empty, nil, gpuShape(1, 1000, 11300, 0), BestFit, 23, 1},
		{"GpuPacking, 2 GPUs", part, []int32{200, 1000, 1000, 500}, gpuShape(2, 1000, 0, 0), gpuPacking, 48, 0b0110},
		{"GpuPacking, 4 GPUs free", part, nil, gpuShape(1, 200, 0, 0), gpuPacking, 29, 1},
		{"GpuPacking, 8 GPUs free", empty, nil, gpuShape(1, 200, 0, 0), gpuPacking, 25, 1},
	} {
		b, cat := openbInventory(t, tc.node)
		use(b, 0, tc.free...)
		c := newClass(tc.pod, 0, &cat.Models)
		got, devices := tc.score(b, &c, 0)
		if got != tc.want || devices != tc.on {
			t.Errorf("%s: %d on devices %b, want %d on %b", tc.name, got, devices, tc.want, tc.on)
		}
	}
}

// TestClustering: b is 25*(8000-free)/8000, plus 25 for a node without GPU pods, 75 with pods of
// the same kind alone, 50 with others too.
func TestClustering(t *testing.T) {
	nodes := []Node{{Name: "a", MilliCPU: 96000, MemoryMiB: 1 << 20, GPUs: 8, Model: "G2"}}
	cat := &Catalogue{}
	if err := cat.Models.add("G2"); err != nil {
		t.Fatal(err)
	}
	b := &Inventory{}
	b.Reset(nodes, cat, NewFragmenter(nil, 0, &cat.Models))
	share, one := newClass(gpuShape(1, 500, 0, 0), 0, &cat.Models), newClass(gpuShape(1, 1000, 0, 0), 1, &cat.Models)
	check := func(what string, c *Class, want int64) {
		t.Helper()
		if got, _ := gpuClustering(b, c, 0); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	check("empty node", &share, 25)
	b.Place(&share, 0, 1)
	check("same kind: 25*500/8000 = 1", &share, 76)
	check("only others", &one, 1)
	b.Place(&one, 0, 2)
	check("same and others: 25*1500/8000 = 4", &share, 54)
	b.Remove(&one, 0, 2)
	check("same kind again", &share, 76)
	if b.Used != (Totals{MilliGPU: 500}) {
		t.Errorf("in use is %+v after a removal, want 500 thousandths of a GPU", b.Used)
	}
}

// TestReserve: half of the requested GPUs can run on T4 alone. Of a cluster of 2 T4 and 6 others,
// half of the 8 free is asked of 2: pressure 2, and after one T4 is taken by another pod, 3.5 of
// 1, cut off at 2. Pods bound to T4 feel none.
func TestReserve(t *testing.T) {
	nodes := []Node{{Name: "a", MilliCPU: 9000, MemoryMiB: 9000, GPUs: 2, Model: "T4"}, {Name: "b", MilliCPU: 9000, MemoryMiB: 9000, GPUs: 6, Model: "G2"}}
	bound := gpuShape(1, 1000, 1000, 1)
	bound.Models = "T4"
	pods := []Pod{{Shape: bound}, {Shape: gpuShape(1, 1000, 1000, 1)}}
	cat, err := NewCatalogue(nodes, pods)
	if err != nil {
		t.Fatal(err)
	}
	b := &Inventory{}
	b.Reset(nodes, cat, NewFragmenter(TypicalPods(Kinds(pods)), len(pods), &cat.Models))
	r := NewReserve(Kinds(pods), &cat.Models)
	if got := r.sets[0].pressure(b, 0); got != 2 {
		t.Errorf("pressure %v, want 4/2", got)
	}
	if got := r.Shortage(b); got != 2000 {
		t.Errorf("shortage %v, want 4000 less 2000", got)
	}
	dst := make([]float64, 2)
	r.Pressure(b, &cat.Classes[0], dst)
	if d := cmp.Diff([]float64{0, 0}, dst); d != "" {
		t.Errorf("pressure on pods bound to T4: %v, want none", dst)
	}
	p := newReserving(b, r)
	if node, _ := p.Choose(&cat.Classes[1]); node != 1 {
		t.Errorf("a pod that may run anywhere goes to node %d, want 1", node)
	}
	if node, _ := p.Choose(&cat.Classes[0]); node != 0 {
		t.Errorf("a pod bound to T4 goes to node %d, want 0", node)
	}
	all := newClass(gpuShape(6, 1000, 1000, 1), 2, &cat.Models)
	b.Place(&all, 1, 0b111111)
	if node, _ := p.Choose(&cat.Classes[1]); node != 0 {
		t.Errorf("with G2 full a pod that may run anywhere goes to node %d, want 0", node)
	}
}

// TestRandomIsUniform: each of two nodes and each of two devices half the time.
func TestRandomIsUniform(t *testing.T) {
	nodes := []Node{{Name: "a", MilliCPU: 9000, MemoryMiB: 9000, GPUs: 2, Model: "T4"}, {Name: "b", MilliCPU: 9000, MemoryMiB: 9000, GPUs: 2, Model: "T4"}}
	pods := []Pod{{Shape: gpuShape(1, 500, 1000, 1)}}
	w := ReferenceWorkload(nodes, pods, 1, 0)
	cat, err := NewCatalogue(nodes, pods)
	if err != nil {
		t.Fatal(err)
	}
	b := &Inventory{}
	b.Reset(nodes, cat, NewFragmenter(TypicalPods(Kinds(pods)), 1, &cat.Models))
	p := newRandom(b, w.rng.Intn)
	counts := map[[2]uint64]int{}
	const n = 4000
	for range n {
		node, devices := p.Choose(&cat.Classes[0])
		counts[[2]uint64{uint64(node), devices}]++
	}
	for k, c := range counts {
		if math.Abs(float64(c)-n/4) > 5*math.Sqrt(n*0.25*0.75) { // five standard deviations
			t.Errorf("node %d, devices %b: %d times of %d, want a quarter", k[0], k[1], c, n)
		}
	}
	if len(counts) != 4 {
		t.Errorf("%d outcomes, want 4", len(counts))
	}
}

func TestSplitModels(t *testing.T) {
	if got, want := SplitModels("V100M16|V100M32|V100M32"), []string{"V100M16", "V100M32"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func cpuShape(milliCPU, memoryMiB int64) Shape { return gpuShape(0, 0, milliCPU, memoryMiB) }

func gpuShape(gpus, milliGPU int32, milliCPU, memoryMiB int64) Shape {
	return Shape{MilliCPU: milliCPU, MemoryMiB: memoryMiB, GPUs: gpus, MilliGPU: milliGPU}
}

// openb returns the folder of the public trace, or skips the test.
func openb(tb testing.TB) string {
	tb.Helper()
	return envstest.Data(tb, "openb", "openb_node_list_gpu_node.csv")
}
