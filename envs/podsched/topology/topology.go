// Package topology names the racks and servers of a cluster's nodes by their order: node i is server i%serversPerRack
// of rack i/serversPerRack. Equal orders give equal names, and no two nodes of a cluster have the same server.
package topology

import "strconv"

// Keys of the labels of a node.
const (
	RackLabel   = "rack"
	ServerLabel = "server"
)

// Rack returns the number of node i's rack. serversPerRack is at least 1.
func Rack(i, serversPerRack int) int { return i / serversPerRack }

// NumRacks returns the number of racks of n nodes; the last one may be partly empty.
func NumRacks(n, serversPerRack int) int { return (n + serversPerRack - 1) / serversPerRack }

// RackName returns the value of [RackLabel] of node i: "rack-3".
func RackName(i, serversPerRack int) string {
	return "rack-" + strconv.Itoa(Rack(i, serversPerRack))
}

// ServerName returns the value of [ServerLabel] of node i. It includes the rack, to be unique in the cluster:
// "rack-3-srv-1".
func ServerName(i, serversPerRack int) string {
	return RackName(i, serversPerRack) + "-srv-" + strconv.Itoa(i%serversPerRack)
}

// NumberRacks numbers the racks of n nodes by their [RackLabel], in the order of their first nodes. It returns nil if a
// node has none.
func NumberRacks(n int, labels func(i int) map[string]string) []int32 {
	number, racks := map[string]int32{}, make([]int32, n)
	for i := range racks {
		name, ok := labels(i)[RackLabel]
		if !ok {
			return nil
		}
		if _, ok := number[name]; !ok {
			number[name] = int32(len(number))
		}
		racks[i] = number[name]
	}
	return racks
}

// NumEdges returns the number of directed edges from each of n nodes to each other node of its rack.
func NumEdges(n, serversPerRack int) int {
	size := min(serversPerRack, n)
	whole, rest := n/size, n%size
	return whole*size*(size-1) + rest*(rest-1)
}

// WriteEdges writes the source and the target of each of these edges to dst.
func WriteEdges(dst []float32, n, serversPerRack int) {
	at := 0
	for i := range n {
		first := Rack(i, serversPerRack) * serversPerRack
		for j := first; j < min(first+serversPerRack, n); j++ {
			if j != i {
				dst[at], dst[at+1] = float32(i), float32(j)
				at += 2
			}
		}
	}
}
