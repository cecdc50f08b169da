// Package online implements k8s/LRAOnline-v0: the agent places long-running containers that come and go, one by one, on
// nodes where they interfere. The observation has the index of each node, which values its future containers.
//
// # Action
//
// Discrete(nodes), the node for the container that has arrived. The mask permits the nodes with a free slot. A container
// on another node stays pending for ever.
//
// # Observation
//
// Dict of nodes, a Box of 23 numbers for each node, and cluster, a Box of 36. The worth of a node is the expected
// discounted throughput of its present and future containers less their prices ([planner.Worth]); the options redis to
// discount set prices and rates. The index of a node for an application is the increase of its worth with one more
// container, and −1 without a free slot. The margin is that index less the largest of all other nodes. A row of nodes:
//
//	index  meaning                                                     min  max
//	0–6    containers of each application, over 8                      0    1
//	7      free slots, over 8                                          0    1
//	8      index for the container                                     −1   1
//	9–15   margin for each application                                 −2   2
//	16–22  the same margins once the container is on the node          −2   2
//
// The cluster:
//
//	index  meaning                                                     min  max
//	0–6    1 for the application of the container                      0    1
//	7–13   running containers of each application, over all slots      0    1
//	14     all of them                                                 0    1
//	15–21  largest index of a node for each application                −1   1
//	22–28  third largest                                               −1   1
//	29–35  tenth largest; −1 with fewer nodes                          −1   1
//
// # Reward
//
// The throughput over the time until the next arrival, divided by the mean number of running containers and the mean
// length of an episode (dense, the default), or all of it at the end (terminal). The return is thus near the mean
// throughput of a container, as a multiple of its throughput alone on a node. The reward gap also subtracts the value of the running containers and of
// the nodes at the duals of the linear bound of the mean mix. All policies that choose permitted nodes have the same
// containers running, so this changes them alike and reduces the variance. Rewards are by score_table, observations and
// the index by table.
//
// # Start
//
// A share load of the slots is in use by random placement.
//
// # End
//
// The episode is truncated after containers placements.
//
// # Options
//
// See [Options].
//
// # Baselines
//
// random, round_robin, least_loaded, greedy, index, index_tuned, index_tuned_published, index_ahead, index_rollout,
// index_rollout_tuned. The linear bound is [planner.MeanMixBound].
//
// # Versions
//
// v0: first version.
//
// # Source
//
// P. Whittle, "Restless bandits: activity allocation in a changing world", J. Applied Probability 25A, 1988 (the index of
// a node). See also package lra.
package online
