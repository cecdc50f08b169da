// Package hierarchical implements k8s/LRAHierarchical-v0: the agent divides long-running containers among sub-clusters
// of 27 nodes, which a frozen sub-scheduler fills.
//
// # Action
//
// Discrete(nodes/27), the sub-cluster for the container, or with tree:true Discrete(3) down a tree. The sub-scheduler
// fills the sub-clusters at the end. The mask permits the choices that have room.
//
// # Observation
//
// Dict of nodes, a Box of a row for each action, and batch, a Box of 17. A row of nodes, for a
// sub-cluster, or the mean of those below a child:
//
//	index  meaning                                                     min  max
//	0–6    containers of each application, over 216                    0    1
//	7      free slots, over 216                                        0    1
//	8      objective of the containers, over 216; 0 until it is filled −b   b
//
// where b is the largest such number of a node, rounded up. The batch:
//
//	index  meaning                                                     min  max
//	0–6    1 for the application of the container                      0    1
//	7–13   containers of each application to come, over free slots     0    1
//	14     all of them, over free slots                                0    1
//	15     slots in use, over all                                      0    1
//	16     violations of restrictions left, over those permitted       0    1
//
// With more than one level, a one-hot vector of the level of the choice follows.
//
// # Reward
//
// The objective over the containers of the batch: at the end (terminal, the default), or by its growth after each
// choice, when the sub-cluster is filled again (dense). Objectives are those of package placement.
//
// # Start
//
// An empty cluster and a batch, drawn with equally likely applications or from a file.
//
// # End
//
// The episode terminates with the last container of the batch.
//
// # Options
//
// See [Options].
//
// # Baselines
//
// random, round_robin, equal_split. The linear bound is [planner.Problem.Bound].
//
// # Versions
//
// v0: first version.
//
// # Source
//
// See package lra.
package hierarchical
