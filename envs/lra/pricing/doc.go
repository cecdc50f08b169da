// Package pricing implements k8s/LRAPricing-v0: the agent sets prices of long-running containers, by which nodes are
// filled one after the other.
//
// # Action
//
// Box of 7 numbers from -1 to 1. The price of a container of an application is the value that one adds to a node, in
// the mean of all states, plus scale (half) times the number. With base duals the number adds to the dual of the linear
// program of what is left instead. A batch is placed node by node, period nodes for each
// action: the next node takes the remaining containers whose value less their prices is highest, such that the nodes
// after it have room for the rest. With online arrivals the Box has 9 numbers, and each of the next period containers goes
// to the node whose index it raises most. The index of a node is its expected discounted surplus. The node is offered
// containers of each application at rate 3·exp(3x/2), with x the eighth number, accepts those whose value exceeds their
// price, and loses each after a mean lifetime, the unit of time. The discount rate is exp(3x/2), with x the ninth number.
//
// # Observation
//
// A Box of 10, or 17 with base duals. With a batch:
//
//	index  meaning                                                      min  max
//	0–6    containers of each application that are left, over the slots
//	       of the nodes to be filled                                    0    1
//	7      all of them                                                  0    1
//	8      nodes to be filled, over all                                 0    1
//	9      1 over the nodes to be filled                                0    1
//	10–16  base duals only: half of 1 and what the dual of each
//	       application exceeds the mean value by                        0    1
//
// With online arrivals 0–6 are the running containers over all slots, 7 is all of them, 8 the share of vacant nodes, 9
// the value of the cluster over twice its slots, clipped. That value is by score_table; all else is by table.
//
// # Reward
//
// As of package placement: dense, terminal, or with online arrivals gap; the objective is
// throughput.
//
// # Start
//
// An empty cluster and a batch, drawn with equally likely applications or from a file. With
// online arrivals, load of the slots is in use by random placement.
//
// # End
//
// The episode terminates with the last container of the batch. With online arrivals it is
// truncated after containers placements.
//
// # Options
//
// See [Options].
//
// # Baselines
//
// mean_values, duals, rounded, constant, constant_tuned. The linear bound is [planner.Problem.Bound].
//
// # Versions
//
// v0: first version.
//
// # Source
//
// P. Whittle, "Restless bandits: activity allocation in a changing world", J. Applied Probability
// 25A, 1988 (the index of a node with online arrivals). See also package lra.
package pricing
