// Package placement places long-running containers, one by one, on nodes where they interfere:
// k8s/LRAPlacement-v0 and k8s/LRASubcluster-v0.
//
// # Action
//
// LRAPlacement: Discrete(nodes), the node for the container. LRASubcluster: Discrete(3), three
// times for each container: a third of the 27 nodes, a third of that, the node. The mask permits
// what has room and is not against a restriction. A container on a node that does not permit it
// stays pending for ever; with full:remap nothing is masked, and full nodes stand for others as in
// the earlier project.
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
// With more than one level there follows 1 for the level of the choice. With online arrivals 7
// to 14 are 0.
//
// # Reward
//
// By how much the objective grows, over the containers of the batch (dense, the default), or all of
// that at the end (terminal): a return is the throughput of a container as a multiple of that alone
// on a node. Objectives: throughput; slo, the share of containers with at least slo_threshold;
// vacant, throughput less beta for each node in use over all nodes. With online arrivals the reward
// is the objective over the time until the next arrival, over the number of containers there are on
// average and the mean length of an episode; reward gap subtracts from the objective what the
// containers that run, and the nodes, are worth at the duals of the linear bound of the mean mix.
// Which containers run is not a policy's doing, so that all policies lose the same by it, and what
// is left has less of their chance. Rewards are by score_table, observations and planners by table.
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
// random, round_robin, least_loaded, paragon, paragon_as_coded, greedy; and planners of the whole
// batch, whatever its order: greedy_app_order, greedy_best_of_21, greedy_local_search, medea,
// milp. The linear bound is [planner.Problem.Bound].
//
// # Versions
//
// v0: first version.
//
// # Source
//
// See package lra.
package placement
