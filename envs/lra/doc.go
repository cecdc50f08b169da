// Package lra is the problem of placing long-running containers that interfere with one another:
// k8s/LRAPlacement-v0, k8s/LRASubcluster-v0, k8s/LRAHierarchical-v0 and k8s/LRAPricing-v0.
//
// A node runs at most 8 containers of 7 applications, and what each of them achieves depends on
// all of them: most contend, and some gain from a store beside them. Nodes do not affect one
// another, so that the cluster is a table of the 6,435 states of a node. An agent places a batch,
// container by container, for the highest throughput.
//
// # Action
//
// LRAPlacement: Discrete(nodes), the node for the container. LRASubcluster: Discrete(3), three
// times for each container: a third of the 27 nodes, a third of that, the node. LRAHierarchical:
// Discrete(nodes/27), the sub-cluster, or with tree:true Discrete(3) down a tree; a frozen
// sub-scheduler fills the sub-clusters at the end. The mask permits what has room and is not
// against a restriction. A container on a node that does not permit it stays pending for ever;
// with full:remap nothing is masked, and full nodes stand for others as in the earlier project.
//
// LRAPricing: Box of 7 numbers from -1 to 1; the price of a container of an application is what
// one adds to a node in the mean of all states, plus half the number. A batch is placed node by
// node (period of them for an action): the next takes, of the containers left, those whose value less
// their prices is highest, so that the nodes after it have room for the rest. With online
// arrivals the Box has 9 numbers and the next period containers go where they raise the worth of
// a node most: what it will earn if it is offered containers of each application at rate
// 3·exp(3x/2), x the eighth number, takes those worth their price and loses each after a mean
// lifetime, the unit of time, discounted at rate exp(3x/2), x the ninth.
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
// where b is the largest such number of the table, rounded up. In LRAHierarchical a row has the
// first nine, over 216 in place of 8; values are 0 until a sub-cluster is filled. The batch:
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
// LRAPricing has a Box of 10 in their place, from 0 to 1. With a batch: 0–6 are the containers of
// each application that are left, over the slots of the nodes to be filled, 7 is all of them, 8
// the share of the nodes to be filled, 9 one over their number. With online arrivals 0–6 are
// the running containers over all slots, 7 is all of them, 8 the share of vacant nodes, 9 the
// value of the cluster over twice its slots.
//
// # Reward
//
// By how much the objective grows, over the containers of the batch (dense, the default but for
// LRAHierarchical), or all of that at the end (terminal): a return is the throughput of a
// container as a multiple of that alone on a node. Objectives: throughput; slo, the share of
// containers with at least slo_threshold; vacant, throughput less beta for each node in use over
// all nodes. With online arrivals the reward is the objective over the time until the next
// arrival, over the number of containers there are on average and the mean length of an episode;
// reward gap subtracts from the objective what the containers that run, and the nodes, are worth
// at the duals of the linear bound of the mean mix. Which containers run is not a policy's doing,
// so that all policies lose the same by it, and what is left has less of their chance.
// Rewards are by score_table, observations and planners by table.
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
// See [Options], [HierarchicalOptions] and [PricingOptions].
//
// # Baselines
//
// random, round_robin, least_loaded, paragon, paragon_as_coded, greedy; and planners of the whole
// batch, whatever its order: greedy_app_order, greedy_best_of_21, greedy_local_search, medea,
// milp. LRAHierarchical: random, round_robin, equal_split. LRAPricing: mean_values, duals. The linear bound is [Problem.Bound].
//
// # Versions
//
// v0: first version.
//
// # Source
//
// L. Wang, Q. Weng, W. Wang, C. Chen, B. Li, "Metis: Learning to Schedule Long-Running
// Applications in Shared Container Clusters at Scale", SC'20, and its artefact; P. Garefalakis et
// al., "Medea", EuroSys'18; C. Delimitrou and C. Kozyrakis, "Paragon", ASPLOS'13; P.
// Whittle, "Restless bandits: activity allocation in a changing world", J. Applied Probability
// 25A, 1988 (the worth of a node with online arrivals).
package lra
