package neighbours

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/vpa/node"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

const gib = 1 << 30

// amounts returns millicores and GiB as resources.
func amounts(cpu int64, memory float64) cluster.Resources {
	return cluster.Resources{MilliCPU: cpu, MemoryBytes: int64(memory * gib)}
}

func constant(u cluster.Resources, n int) []cluster.Resources {
	all := make([]cluster.Resources, n)
	for i := range all {
		all[i] = u
	}
	return all
}

// TestNodeSize: the drawn node has room for the pods' peak and a half, beside its neighbours.
func TestNodeSize(t *testing.T) {
	law := Law{Number: 4, SizeLow: 0.5, SizeHigh: 2, BusyCPU: 1, BusyMemory: 1, Types: workload.Types(), Interval: 60}
	var n Node
	classes := map[node.QoS]int{}
	for seed := range uint64(100) {
		rng := rand.New(pcg.New(seed))
		c := workload.Draw(law.Types[rng.IntN(len(law.Types))], 1440, law.Interval, rng)
		own := Own{Past: c.Append(t.Context(), nil, rng), Steps: 10, Shares: []float64{1}}
		law.Draw(t.Context(), &n, &own, rng)
		free := n.Allocatable()
		for _, nb := range n.Neighbours {
			if got := len(nb.Demand); got != 1450 {
				t.Fatalf("seed %d: %d samples of a neighbour's demand, want 1440 and 10", seed, got)
			}
			classes[node.Class(nb.Requests, nb.Limits)]++
			free.MilliCPU -= nb.Requests.MilliCPU
			free.MemoryBytes -= nb.Requests.MemoryBytes
		}
		for _, u := range own.Past {
			if float64(u.MilliCPU)*1.5 > float64(free.MilliCPU) || float64(u.MemoryBytes)*1.5 > float64(free.MemoryBytes) {
				t.Fatalf("seed %d: %+v free for a demand of %+v", seed, free, u)
			}
		}
	}
	// 400 neighbours, a quarter Guaranteed and a tenth BestEffort: four standard deviations are 35 and 24.
	if g, b := classes[node.Guaranteed], classes[node.BestEffort]; g < 65 || g > 135 || b < 16 || b > 64 {
		t.Errorf("%d Guaranteed and %d BestEffort of 400, want about 100 and 40", g, b)
	}
}

// TestSizeByHand: the capacity for two pods with half of 1000 m and 1 GiB each, without neighbours.
func TestSizeByHand(t *testing.T) {
	for _, tc := range []struct {
		name string
		law  Law
		want cluster.Resources
	}{
		// 1.5 times the demand and 50 m, 300 MiB; 100 MiB for evictions; one more, as amounts are rounded down.
		{"drawn", Law{}, cluster.Resources{MilliCPU: 1551, MemoryBytes: (1536+300+100)<<20 + 1}},
		{"given CPU", Law{NodeCPU: 900}, cluster.Resources{MilliCPU: 900, MemoryBytes: (1536+300+100)<<20 + 1}},
		{"given memory", Law{NodeMemory: 512}, cluster.Resources{MilliCPU: 1551, MemoryBytes: 512 << 20}},
	} {
		var n Node
		tc.law.Interval = 60
		tc.law.Draw(t.Context(), &n, &Own{Past: constant(amounts(1000, 1), 60), Steps: 5, Shares: []float64{0.5, 0.5}}, rand.New(pcg.New(1)))
		if n.Capacity != tc.want || n.History != 60 {
			t.Errorf("%s: a node of %+v after %d samples, want %+v and 60", tc.name, n.Capacity, n.History, tc.want)
		}
		tc.want.MemoryBytes -= 100 << 20
		if got := n.Allocatable(); got != tc.want {
			t.Errorf("%s: %+v allocatable, want %+v", tc.name, got, tc.want)
		}
	}
}

// TestFit: a Guaranteed neighbour with 1000 m and 1 GiB keeps its requests, and a Burstable one with 1000 m and 2 GiB leaves
// room, down to a fifth; then the node grows.
func TestFit(t *testing.T) {
	for _, tc := range []struct {
		name                      string
		room, capacity, burstable cluster.Resources
	}{
		{"room", amounts(1000, 0.5), amounts(3001, 4), amounts(1000, 2)},
		// (3000-1500-1000)/1000 is a half; (4-2-1)/2, too.
		{"half", amounts(1500, 2), cluster.Resources{MilliCPU: 3001, MemoryBytes: 4*gib + 1}, amounts(500, 1)},
		// A fifth is 200 m, and 2800+1000+200 m are needed.
		{"a fifth", amounts(2800, 0.5), amounts(4001, 4), amounts(200, 2)},
	} {
		n := Node{Capacity: amounts(3000, 4), Neighbours: []Neighbour{
			{Requests: amounts(1000, 1), Limits: amounts(1000, 1)}, {Requests: amounts(1000, 2), Limits: amounts(2000, 3)},
		}}
		n.fit(tc.room)
		got := []cluster.Resources{n.Capacity, n.Neighbours[0].Requests, n.Neighbours[1].Requests}
		if diff := cmp.Diff([]cluster.Resources{tc.capacity, amounts(1000, 1), tc.burstable}, got); diff != "" {
			t.Errorf("%s: the node, Guaranteed, Burstable (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestFaults: one fault an hour on average, half of them of CPU, with the amounts of its doc comment.
func TestFaults(t *testing.T) {
	law := Law{FaultsPerDay: 24, Interval: 60}
	own := Own{Past: constant(amounts(1000, 1), 60), Steps: 300 * 60, Shares: []float64{1, 2}}
	var n Node
	law.Draw(t.Context(), &n, &own, rand.New(pcg.New(1)))
	spins, steps := 0, 0
	for _, f := range n.Faults {
		steps += f.To - f.From
		mean := own.Shares[f.Pod]
		spin, leak := f.Spin/(1000*mean), f.Leak/(gib*mean/60)
		switch {
		case f.Leak == 0 && spin >= 1 && spin < 4:
			spins++
		case f.Spin == 0 && leak >= 0.5 && leak < 3:
		default:
			t.Errorf("a fault with %v of the mean CPU, and %v of the mean memory an hour", spin, leak)
		}
	}
	// A Poisson number of 300, four standard deviations are 69; half of them, and two hours each: 35, and 28 minutes.
	if got := len(n.Faults); got < 231 || got > 369 || spins < got/2-35 || spins > got/2+35 || steps/got < 92 || steps/got > 148 {
		t.Errorf("%d faults, %d of them of CPU, of %d minutes on average; want about 300, half and 120", got, spins, steps/got)
	}
	if c := n.Clone(); !cmp.Equal(c, n) {
		t.Errorf("the clone differs:\n%s", cmp.Diff(n, c))
	} else if c.Faults[0].To = -1; n.Faults[0].To == -1 {
		t.Error("the clone shares its faults")
	}
}
