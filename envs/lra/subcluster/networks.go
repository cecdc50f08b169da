package subcluster

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/envs/dataset"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// Sizes of the published networks.
const (
	subInputs  = 29 // counts of the three children, the application, the remaining containers of each
	subHidden  = 128
	subClasses = 20 // of numbers of containers: 1 to 10, 11 to 20, … 191 and more
)

// Networks are the frozen networks of the earlier project, which fill a sub-cluster of 27 nodes. Each class of numbers
// of containers has a network for each of three levels: dense 128, tanh, dense 3.
type Networks struct {
	levels [subClasses][Levels]subNet
}

type subNet struct {
	kernel1, bias1 []float64 // (29, 128), (128)
	kernel2, bias2 []float64 // (128, 3), (3)
}

var _ Scheduler = (*Networks)(nil)

// ReadNetworks reads the published networks: float32 arrays with the names
// s{0,10…190}_l{1,2,3}_{fc1,fc2}_{kernel,bias}.
func ReadNetworks(path string) (*Networks, error) {
	return dataset.ReadNPZ("lra: ", path, func(a *dataset.Arrays) (*Networks, error) {
		nets := &Networks{}
		for class := range nets.levels {
			for level := range nets.levels[class] {
				net := &nets.levels[class][level]
				for _, part := range []struct {
					name  string
					dst   *[]float64
					shape []int
				}{
					{"fc1_kernel", &net.kernel1, []int{subInputs, subHidden}}, {"fc1_bias", &net.bias1, []int{subHidden}},
					{"fc2_kernel", &net.kernel2, []int{subHidden, FanOut}}, {"fc2_bias", &net.bias2, []int{FanOut}},
				} {
					var err error
					name := fmt.Sprintf("s%d_l%d_%s", 10*class, level+1, part.name)
					if *part.dst, err = a.Finite(name, part.shape...); err != nil {
						return nil, err
					}
				}
			}
		}
		return nets, nil
	})
}

// choose returns the child with the largest output.
func (n *subNet) choose(input *[subInputs]float64) int {
	var hidden [subHidden]float64
	copy(hidden[:], n.bias1)
	for i, v := range input {
		if v == 0 {
			continue
		}
		for k, w := range n.kernel1[i*subHidden : (i+1)*subHidden] {
			hidden[k] += v * w
		}
	}
	out := [FanOut]float64(n.bias2)
	for k, v := range hidden {
		v = math.Tanh(v)
		for c := range out {
			out[c] += v * n.kernel2[k*FanOut+c]
		}
	}
	best := 0
	for c, v := range out {
		if v > out[best] {
			best = c
		}
	}
	return best
}

// Fill implements [Scheduler] for 27 nodes of [lra.MaxSlots] slots.
func (n *Networks) Fill(p *planner.Problem, x planner.Placement) error {
	if len(p.Class) != Nodes {
		return fmt.Errorf("lra: %d nodes for sub-schedulers that are trained on %d", len(p.Class), Nodes)
	}
	for _, m := range p.Models {
		if m.Class.Slots != lra.MaxSlots || m.Class.Spread != 0 || m.Class.Forbidden != [lra.NumApps]bool{} {
			return fmt.Errorf("lra: nodes of class %+v for sub-schedulers that are trained on %d slots for any application", m.Class, lra.MaxSlots)
		}
	}
	total := p.Batch.Total()
	if total > Nodes*lra.MaxSlots {
		return fmt.Errorf("lra: %d containers for a sub-cluster, want at most %d", total, Nodes*lra.MaxSlots)
	}
	nets := &n.levels[min(max(total-1, 0)/10, subClasses-1)]
	clear(x)
	seen, to := make(planner.Placement, Nodes), make([]int, Nodes)
	left := p.Batch
	for app, k := range p.Batch {
		for range k {
			left[app]--
			planner.Remap(p, x, seen, to)
			at := 0
			for level, width := range [Levels]int{9, 3, 1} {
				at += width * nets[level].decide(seen[at:], width, app, &left)
			}
			x[to[at]] = x[to[at]].Add(app)
		}
	}
	return nil
}

// decide returns the child, of width nodes each, for the next container of app. It sees the nodes as [planner.Remap]
// shows them.
func (n *subNet) decide(seen planner.Placement, width, app int, left *lra.Counts) int {
	var input [subInputs]float64
	for c := range FanOut {
		for a, k := range seen[c*width : (c+1)*width].Batch() {
			input[c*lra.NumApps+a] = float64(k)
		}
		input[c*lra.NumApps+app]++
	}
	input[FanOut*lra.NumApps] = float64(app)
	for a, k := range left {
		input[FanOut*lra.NumApps+1+a] = float64(k)
	}
	return n.choose(&input)
}
