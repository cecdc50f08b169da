package lra

import (
	"fmt"
	"math"
)

// Sizes of the published sub-schedulers.
const (
	SubclusterNodes  = 27 // nodes of a sub-cluster: three levels of three
	FanOut           = 3  // children of a vertex of the tree over a sub-cluster
	SubclusterLevels = 3  // choices among FanOut that lead to a node
	subInputs        = 29 // counts of the three children, the application, what remains of each
	subHidden        = 128
	subClasses       = 20 // of numbers of containers: 1 to 10, 11 to 20, … 191 and more
)

// A SubScheduler fills the nodes of a sub-cluster.
type SubScheduler interface {
	// Fill sets x, which it need not read, to a placement of p's batch on p's nodes.
	Fill(p *Problem, x Placement) error
}

// subSchedulerFiles holds the registered readers by the ending of the files' names. Only init functions
// write it.
var subSchedulerFiles = map[string]func(path string) (SubScheduler, error){}

// RegisterSubSchedulerFile makes the option subscheduler take files that end in ext, such as
// ".safetensors", by read. It is called from init, as envs.Register is, and panics if ext is taken.
func RegisterSubSchedulerFile(ext string, read func(path string) (SubScheduler, error)) {
	if ext == npzExt || subSchedulerFiles[ext] != nil {
		panic(fmt.Sprintf("lra: sub-schedulers in files %s are registered twice", ext))
	}
	subSchedulerFiles[ext] = read
}

// npzExt ends the names of files of the published networks.
const npzExt = ".npz"

// SubSchedulerFile returns the reader of files that end in ext: of the published networks, .npz, or a
// registered one. It returns nil if there is none.
func SubSchedulerFile(ext string) func(path string) (SubScheduler, error) {
	if ext == npzExt {
		return func(path string) (SubScheduler, error) { return ReadSubSchedulerFile(path) }
	}
	return subSchedulerFiles[ext]
}

// SubSchedulerNets are the frozen networks of the earlier project, which fill a sub-cluster of
// 27 nodes: for each class of the number of containers a network for each of three levels,
// dense 128, tanh, dense 3.
type SubSchedulerNets struct {
	levels [subClasses][SubclusterLevels]subNet
}

type subNet struct {
	kernel1, bias1 []float64 // (29, 128), (128)
	kernel2, bias2 []float64 // (128, 3), (3)
}

var _ SubScheduler = (*SubSchedulerNets)(nil)

// ReadSubSchedulerFile reads the published networks: float32 arrays with the names
// s{0,10…190}_l{1,2,3}_{fc1,fc2}_{kernel,bias}.
func ReadSubSchedulerFile(path string) (*SubSchedulerNets, error) {
	return readArrays(path, func(a *arrays) (*SubSchedulerNets, error) {
		nets := &SubSchedulerNets{}
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
					if *part.dst, err = a.finite(name, part.shape...); err != nil {
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

// Fill implements [SubScheduler] for 27 nodes of [MaxSlots] slots.
func (n *SubSchedulerNets) Fill(p *Problem, x Placement) error {
	if len(p.Class) != SubclusterNodes {
		return fmt.Errorf("lra: %d nodes for sub-schedulers that are trained on %d", len(p.Class), SubclusterNodes)
	}
	for _, m := range p.Models {
		if m.Class.Slots != MaxSlots || m.Class.Spread != 0 || m.Class.Forbidden != [NumApps]bool{} {
			return fmt.Errorf("lra: nodes of class %+v for sub-schedulers that are trained on %d slots for any application", m.Class, MaxSlots)
		}
	}
	total := p.Batch.Total()
	if total > SubclusterNodes*MaxSlots {
		return fmt.Errorf("lra: %d containers for a sub-cluster, want at most %d", total, SubclusterNodes*MaxSlots)
	}
	nets := &n.levels[min(max(total-1, 0)/10, subClasses-1)]
	clear(x)
	seen, to := make(Placement, SubclusterNodes), make([]int, SubclusterNodes)
	left := p.Batch
	for app, k := range p.Batch {
		for range k {
			left[app]--
			Remap(p, x, seen, to)
			at := 0
			for level, width := range [SubclusterLevels]int{9, 3, 1} {
				at += width * nets[level].decide(seen[at:], width, app, &left)
			}
			x[to[at]] = x[to[at]].Add(app)
		}
	}
	return nil
}

// Remap replaces a mask, as in the earlier project: in seen it shows each full node as one that is
// not, and in to it says to which node a choice of node i leads. The first full
// node becomes the first that is not, the second the second, and so on in turn. Remap returns
// false, and changes nothing, if all nodes are full.
func Remap(nodes interface{ Slots(i int) int }, x, seen Placement, to []int) bool {
	full := func(i int) bool { return x[i].Total() >= nodes.Slots(i) }
	next := 0
	for next < len(x) && full(next) {
		next++
	}
	if next == len(x) {
		return false
	}
	for i, s := range x {
		seen[i], to[i] = s, i
		if !full(i) {
			continue
		}
		seen[i], to[i] = x[next], next
		for next = (next + 1) % len(x); full(next); {
			next = (next + 1) % len(x)
		}
	}
	return true
}

// decide returns the child, of width nodes each, for the next container of app, given the
// nodes as [Remap] shows them.
func (n *subNet) decide(seen Placement, width, app int, left *Counts) int {
	var input [subInputs]float64
	for c := range FanOut {
		for a, k := range seen[c*width : (c+1)*width].Batch() {
			input[c*NumApps+a] = float64(k)
		}
		input[c*NumApps+app]++
	}
	input[FanOut*NumApps] = float64(app)
	for a, k := range left {
		input[FanOut*NumApps+1+a] = float64(k)
	}
	return n.choose(&input)
}

// EqualSplit divides a batch among sub-clusters of slots each: container by container in the
// order of applications, to the one with the fewest containers, of those with equally many to
// the one with the fewest of the application, and of these to the first.
func EqualSplit(batch Counts, subclusters, slots int) ([]Counts, error) {
	if n := batch.Total(); n > subclusters*slots {
		return nil, fmt.Errorf("lra: %d containers for %d sub-clusters, want at most %d", n, subclusters, subclusters*slots)
	}
	parts := make([]Counts, subclusters)
	totals := make([]int, subclusters)
	for app, k := range batch {
		for range k {
			best := LeastPart(totals, parts, app)
			parts[best][app]++
			totals[best]++
		}
	}
	return parts, nil
}

// LeastPart returns the first sub-cluster of those with the fewest containers that has the fewest
// of app.
func LeastPart(totals []int, parts []Counts, app int) int {
	best := 0
	for i := range parts {
		if totals[i] < totals[best] || totals[i] == totals[best] && parts[i][app] < parts[best][app] {
			best = i
		}
	}
	return best
}

// FillParts fills each sub-cluster of [SubclusterNodes] nodes with its part by sub.
func (p *Problem) FillParts(parts []Counts, sub SubScheduler) (Placement, error) {
	if len(parts)*SubclusterNodes != len(p.Class) {
		return nil, fmt.Errorf("lra: %d sub-clusters of %d nodes in a cluster of %d", len(parts), SubclusterNodes, len(p.Class))
	}
	x := make(Placement, len(p.Class))
	for i, part := range parts {
		from, to := i*SubclusterNodes, (i+1)*SubclusterNodes
		q := &Problem{Models: p.Models, Class: p.Class[from:to], Batch: part}
		if err := sub.Fill(q, x[from:to]); err != nil {
			return nil, err
		}
	}
	return x, nil
}
