// Package example packs pods onto few nodes. It is the smallest complete environment on a cluster, a template for new
// ones: CONTRIBUTING.md lists the files. Package all does not register it.
//
// # Action
//
// Discrete(nodes): the node for the pod. The mask permits the nodes on which the pod fits, and all of
// them if it fits on none. A pod on a node where it does not fit stays pending for ever.
//
// # Observation
//
// Dict of nodes, a Box of shape (nodes, 3), and pod, a Box of shape (3,).
//
//	index  nodes                               min  max
//	0      free CPU, over that of the node     0    1
//	1      free memory, over that of the node  0    1
//	2      1 if the node runs a pod            0    1
//
//	index  pod                                 min  max
//	0      CPU that it requests, over a node's     0    1
//	1      memory that it requests, over a node's  0    1
//	2      pods still to come, over all         0    1
//
// # Reward
//
// −1/nodes for the first pod of a node, and −1 for a pod that stays pending.
//
// # Start
//
// Empty nodes of 4 cores and 8 GiB. Each pod requests 0.5, 1 or 2 cores and 1, 2 or 4 GiB, all equally
// likely.
//
// # End
//
// The episode terminates with the last pod.
//
// # Options
//
// See [Options].
//
// # Baselines
//
// first_fit takes the first node on which the pod fits; best_fit the one with the least CPU left.
//
// # Versions
//
// v0: first version.
//
// # Source
//
// The reward is that of bin packing: M. Garey, D. Johnson, "Computers and Intractability", 1979, SR1.
package example
