// Package placement implements k8s/LRAPlacement-v0 and k8s/LRASubcluster-v0: the agent places long-running containers,
// one by one, on nodes where they interfere.
//
// # Action
//
// LRAPlacement: Discrete(nodes), the node for the container. LRASubcluster: Discrete(3), three times for each
// container: a third of the 27 nodes, a third of that, the node. The mask permits the choices that have room and
// violate no restriction. A container on a node that does not permit it stays pending for ever. With full:remap nothing
// is masked, and a choice of a full node leads to another node, as in the earlier project.
//
// # Observation
//
// Dict of nodes, a Box of a row for each action, and batch, a Box of 17. A row of nodes, for a
// node, or the mean of those below a child (of the gain the largest):
//
//	index  meaning                                                     min  max
//	0–6    containers of each application, over 8                      0    1
//	7      free slots, over 8                                          0    1
//	8      value of the node: the objective of its containers, over 8  −b   b
//	9      by how much that value would grow with the container        −b   b
//	10     speed of the node                                           0    b
//
// where b is the largest such number of the table, rounded up. The batch:
//
//	index  meaning                                                     min  max
//	0–6    1 for the application of the container                      0    1
//	7–13   containers of each application to come, over free slots     0    1
//	14     all of them, over free slots                                0    1
//	15     slots in use, over all                                      0    1
//	16     violations of restrictions left, over those permitted       0    1
//
// With more than one level, a one-hot vector of the level of the choice follows. With online arrivals 7 to 14 are 0.
//
// # Reward
//
// The growth of the objective, over the containers of the batch (dense, the default), or all of it at the end
// (terminal). The return is thus the mean throughput of a container, as a multiple of its throughput alone on a node.
// Objectives: throughput; slo, the share of containers with at least slo_threshold; vacant, throughput less beta for
// each node in use over all nodes. With online arrivals the reward is the objective over the time until the next
// arrival, divided by the mean number of running containers and the mean length of an episode. The reward gap also
// subtracts the value of the running containers and of the nodes at the duals of the linear bound of the mean mix.
// Without spread and restrict, all policies that choose permitted nodes have the same containers running, so this
// changes them alike and reduces the variance. Rewards are by score_table, observations and planners by table.
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
// random, round_robin, least_loaded, paragon, paragon_as_coded, greedy; and planners that see the whole batch in
// advance: greedy_app_order, greedy_best_of_21, greedy_local_search, medea, milp. The linear bound is
// [planner.Problem.Bound].
//
// # Versions
//
// v0: first version.
//
// # Source
//
// See package lra.
package placement
