// Package subcluster divides batches among sub-clusters of 27 nodes and fills these: by planners, by the published
// networks, or by readers that are registered for a file extension.
package subcluster

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// Sizes of a sub-cluster.
const (
	Nodes  = 27 // nodes of a sub-cluster: three levels of three
	FanOut = 3  // children of a vertex of the tree over a sub-cluster
	Levels = 3  // choices among FanOut children that lead to a node
)

// A Scheduler fills the nodes of a sub-cluster.
type Scheduler interface {
	// Fill sets x, which it need not read, to a placement of p's batch on p's nodes.
	Fill(p *planner.Problem, x planner.Placement) error
}

// fileReaders holds the readers by file extension: that of the published networks, and registered ones. Only init
// functions write it.
var fileReaders = map[string]func(path string) (Scheduler, error){
	".npz": func(path string) (Scheduler, error) { return ReadNetworks(path) },
}

// RegisterFile makes the option subscheduler read files that end in ext, such as ".safetensors", with read. It is
// called from init, as envs.Register is, and panics if ext is taken.
func RegisterFile(ext string, read func(path string) (Scheduler, error)) {
	if fileReaders[ext] != nil {
		panic(fmt.Sprintf("lra: sub-schedulers in files %s are registered twice", ext))
	}
	fileReaders[ext] = read
}

// EqualSplit divides a batch among sub-clusters of slots each, in the order of applications. Each container goes to the
// sub-cluster with the fewest containers; among equal ones to that with the fewest of the application, then to the
// first.
func EqualSplit(batch lra.Counts, subclusters, slots int) ([]lra.Counts, error) {
	if n := batch.Total(); n > subclusters*slots {
		return nil, fmt.Errorf("lra: %d containers for %d sub-clusters, want at most %d", n, subclusters, subclusters*slots)
	}
	parts := make([]lra.Counts, subclusters)
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

// LeastPart returns the sub-cluster with the fewest containers; among equal ones that with the fewest of app, then the
// first.
func LeastPart(totals []int, parts []lra.Counts, app int) int {
	best := 0
	for i := range parts {
		if totals[i] < totals[best] || totals[i] == totals[best] && parts[i][app] < parts[best][app] {
			best = i
		}
	}
	return best
}

// FillParts fills each sub-cluster of [Nodes] nodes of p with its part, by sub.
func FillParts(p *planner.Problem, parts []lra.Counts, sub Scheduler) (planner.Placement, error) {
	if len(parts)*Nodes != len(p.Class) {
		return nil, fmt.Errorf("lra: %d sub-clusters of %d nodes in a cluster of %d", len(parts), Nodes, len(p.Class))
	}
	x := make(planner.Placement, len(p.Class))
	for i, part := range parts {
		from, to := i*Nodes, (i+1)*Nodes
		q := &planner.Problem{Models: p.Models, Class: p.Class[from:to], Batch: part}
		if err := sub.Fill(q, x[from:to]); err != nil {
			return nil, err
		}
	}
	return x, nil
}
