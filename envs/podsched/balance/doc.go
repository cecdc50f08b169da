// Package balance implements k8s/PodBalance-v0: the agent spreads a stream of deployments over a small cluster, one pod
// at a time.
//
// Deployments of equal pods come one after another, and each pod is bound to one of N nodes. When the load reaches a
// limit, the cluster is emptied and filled again. The setting is that of deep-RL schedulers for KWOK clusters: ten
// workers of 64 CPU and 256 Gi, deployments of 5 to 15 pods of 1 CPU and 2 Gi. Options make nodes and pods differ, let
// pods end, separate usage from requests, and put the nodes into racks.
//
// # Action
//
// Discrete(N): the node to bind the pod to. The mask permits the nodes on which the pod fits. A pod that fits no node
// fails without a decision. A masked action leaves the pod unplaced, and it fails too.
//
// # Observation
//
// Dict. All values except edges are in [0, 1]. "nodes" has shape (N, 16); for each node:
//
//	index  meaning                                                    min  max
//	0, 1   CPU and memory requested, over the node's                  0    1
//	2, 3   CPU and memory used, over the node's                       0    1
//	4      pods, over 110                                             0    1
//	5, 6   the pod's request of CPU and memory, over the node's       0    1
//	7, 8   the node's CPU and memory, over those of the largest node  0    1
//	9, 10  replicas of the pod's deployment that run on the node and  0    1
//	       in its rack, over all its replicas
//	11     CPU requested in the node's rack, over the rack's          0    1
//	12     1 if the node runs a pod                                   0    1
//	13     1 if the pod fits                                          0    1
//	14, 15 CPU and memory requested, or with measure:usage used,      0    1
//	       plus the pod's request, over the node's; from 0 for the
//	       node with the lowest to 1 for the one with the highest
//
// "pod" has shape (7,):
//
//	0, 1   the pod's request of CPU and memory, over the largest node's  0  1
//	2      replicas of its deployment, over the most that one has        0  1
//	3      part of them that came before it                              0  1
//	4…6    requested part of the cluster's CPU, memory and pods          0  1
//
// With hints:lifetime a node has 29 features and the pod 17. The additional features forecast shares of nodes at four
// horizons, 10, 25, 50 and 100 % of the mean lifetime from now, from predicted lifetimes of pods. A prediction is the
// lifetime times a factor whose logarithm is uniform within ± log hint_error; the time that a pod has already run
// corrects it.
//
//	nodes 16…23  expected share of CPU and of memory, of the pods that    0  1
//	             run now, at each horizon
//	nodes 24…28  excess now and at each horizon: the cost of binding the  0  1
//	             pod to the node above that of the cheapest node that
//	             the mask permits, over the largest excess
//	pod 7…10     probability that the pod, bound now, runs at each        0  1
//	             horizon
//	pod 11       the largest excess, over 10 %                            0  1
//	pod 12…16    the cost of binding the pod to the cheapest node that    0  1
//	             the mask permits, now and at each horizon, over 20 %
//
// With costs:true a node has 17 features and the pod 9. The additional features are the costs by which Greedy chooses:
//
//	nodes 16  excess: the cost of binding the pod to the node above that  0  1
//	          of the cheapest node that the mask permits, over the
//	          largest excess
//	pod 7     the largest excess, over 10 %                               0  1
//	pod 8     the cost of binding the pod to the cheapest node that the   0  1
//	          mask permits, over 20 %
//
// With edges:rack, "edges" of shape (E, 2) are source and target of a directed edge from each
// node to each other in its rack, and "edge_mask" of shape (E,) is 1 throughout. When an episode
// has terminated there is no pod: the elements that depend on one are 0, except 9 and 10 of "nodes", which are 1 where the
// node or its rack runs replicas of the last pod's deployment.
//
// For a pod that requests no CPU or no memory, observations and baselines count 100 milliCPU or 200 MiB, as
// kube-scheduler's scores do; rewards and info count the requests.
//
// # Reward
//
// −cost/unit of the state after the bind, less 10 for each pod that failed since the last decision. Of two placements
// in the same state, the one that leads to the lower cost has the strictly higher reward. The cost is in percent, by
// objective; sd is the population standard deviation:
//
//	balance  unit 10   (sd over nodes of the CPU share + the same of memory) / 2, a share being
//	                   requested over allocatable, or with measure:usage used over allocatable
//	spread   unit 10   (sd over racks of the part of the deployment's replicas that run there +
//	                   the same over nodes) / 2
//	pack     unit 100  (part of the nodes that run a pod + part of the racks that do) / 2
//
// reward:original is the reward of the source, see [imbalance.OriginalReward]. Its returns are comparable with recorded
// runs, and say little about balance.
//
// # Start
//
// Empty nodes; the first pod is to be placed. Nodes, deployments, lifetimes and usage are drawn, or deployments come
// from a file. No draw depends on placements: all policies see the same pods. Option trace plays a recording of a
// cluster; package recorded describes its nodes and pods. With steps the episode begins at a random pod, and the pods
// that ran at that time are on their recorded nodes.
//
// # End
//
// Terminated when the cluster has been filled resets times, or at the end of a file, of a recording or of the clock,
// which is 73 years long. The cluster counts as filled after reset_pods pods, or at the end of the deployment with which
// the requests of all pods since the last reset, placed or not, reach cpu_load, memory_load or pod_load; with lifetimes
// only after reset_pods pods. Truncated after steps decisions.
//
// # Options
//
// See [Options]. The defaults are the setting of the source.
//
// # Baselines
//
// Random, RoundRobin, First, Greedy; WeightedScores, a mix of all scores; LeastAllocated, MostAllocated and
// BalancedAllocation of kube-scheduler; KubeDefault, all its plugins with their current default weights, and
// KubeRackSpread, the same for pods with a topology spread constraint over racks; with hints GreedyLifetime, which
// weighs forecast costs against the cost after the bind; and, for small instances, the clairvoyant Exact, which is optimal.
//
// # Versions
//
// v0: first version.
//
// # Source
//
// AAML (A. Sheller), deep-RL pod schedulers for a KWOK cluster, 2023. Racks and servers:
// pytorch-rl-scheduler (ndr2084), 2025. Scores: kubernetes/kubernetes, pkg/scheduler.
package balance
