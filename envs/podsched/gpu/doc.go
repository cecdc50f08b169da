// Package gpu is the problem of placing pods onto nodes whose GPUs can be shared:
// k8s/GPUPodScheduling-v0, -v1 and -v2.
//
// Pods come one at a time, and each asks for CPU, memory and a part of a GPU, whole GPUs or
// none, perhaps of certain models only. The agent chooses the node. GPUs are fragmented when
// what is free of them suits none of the pods to come; fragmentation gradient descent (FGD) is
// the published heuristic against it. [gpushare.Reproduce] plays the heuristics exactly as the published
// tables were made, and [gpushare.Simulate] plays them as plugins of a scheduler.
//
// # Action
//
// Discrete(N) for N nodes: the node for the pod. With option defer, Discrete(N+1): the last
// puts the pod off. Nodes where the pod does not fit are masked out. If one is chosen
// nevertheless, the pod is given up in time-free dynamics, and continues to wait in timed ones.
// Option devices says which device a pod takes that shares one; whole devices are those of
// lowest index.
//
// # Observation
//
// Dict of nodes, Box(0, 1, (N, 25)), one row for each node, and pod, Box(0, 1, (20,)). Nothing
// in them depends on N, so that a network that scores rows fits any cluster.
//
//	nodes   meaning                                                            min  max
//	0       free CPU, over the node's                                          0    1
//	1       free memory, over the node's                                       0    1
//	2       free GPU, over the node's devices                                  0    1
//	3       free CPU, over 128 cores                                           0    1
//	4       free memory, over 1 TiB                                            0    1
//	5       free GPU, over 8 devices                                           0    1
//	6       running pods, over 100                                             0    1
//	7       fragmentation F of the node, over its devices                      0    1
//	8 … 15  free share of each device, in descending order; 0 beyond the last  0    1
//	16      whether the pod fits                                               0    1
//	17      CPU that the pod takes of what is free                             0    1
//	18      GPU that the pod takes of what is free                             0    1
//	19      what the pod leaves free of the device that it shares              0    1
//	20      pressure on the node's GPU model, over 2: what pods to come that   0    1
//	        can run on no other are expected to ask, over what is free; 1/2
//	        is scarce. 0 for pods that are among those themselves
//	21      free GPUs of the node's model, over all free GPUs                  0    1
//	22      1/(1+exp(-d)), with d the fragmentation that the placement takes   0    1
//	        away, in GPUs
//	23      the score of FGD, over 100: 22 truncated to hundredths             0    1
//	24      the score of BestFit, over 100                                     0    1
//
// Without option scores, columns 22 to 24 are not there. Option whole_gpus, which version 2 sets, adds three columns at the end
// that count wholly free GPUs:
//
//	25      on the node, over 8                                                0    1
//	26      on the node after the placement, over 8; without a pod as 25       0    1
//	27      on nodes of its GPU model, over those of the cluster               0    1
//
//	pod     meaning                                                            min  max
//	0       CPU, over 128 cores                                                0    1
//	1       memory, over 1 TiB                                                 0    1
//	2       GPUs, over 8                                                       0    1
//	3       thousandths of each GPU, over 1000                                 0    1
//	4       whether it shares a GPU                                            0    1
//	5       whether it wants no GPU                                            0    1
//	6       whether it is bound to GPU models                                  0    1
//	7       of the free GPUs, those of its models                              0    1
//	8       of the nodes, those where it fits                                  0    1
//	9       how often it was put off, over 10                                  0    1
//	10      hours since its arrival, over 24                                   0    1
//	11      GPUs requested so far, over twice the cluster's                    0    1
//	12      GPUs allocated, over the cluster's                                 0    1
//	13      fragmentation F of the cluster, over its GPUs                      0    1
//	14      CPU allocated, over the cluster's                                  0    1
//	15      memory allocated, over the cluster's                               0    1
//	16      pods put off or waiting, over 100                                  0    1
//	17 … 19 of the pods to come, those without GPU, those that share one,      0    1
//	        and those bound to models
//
// and with whole_gpus
//
//	20 … 23 of the nodes, those with 1, 2, 4 and 8 wholly free GPUs or more    0    1
//	24, 25  of the nodes, those with 8 wholly free GPUs and 64.2 or 88 free    0    1
//	        cores, as many as most of the published pods with 8 GPUs want
//	26      wholly free GPUs, over the cluster's                               0    1
//
// With edges:model there are edges, shape (N, 2), source and target of an edge from each node to
// the next of the same GPU model, after the last the first, and edge_mask, shape (N,), which is
// 0 for a node that has no other of its model.
//
// What is beyond a bound is clipped to it. At an episode's end there is no pod: what depends on
// one is 0 and every action is permitted.
//
// # Reward
//
// By option reward, in percent of the cluster's GPUs:
//
//   - allocation (default): the GPUs that the placement allocates, so that in time-free
//     dynamics the return is the final allocation, less that at load_start;
//   - fragmentation: the fragmentation F that the placement takes away;
//   - scarcity: allocation, less what the placement adds to the shortage of models for pods that
//     can run on no other;
//   - waiting: −1 for each 1000 pod seconds that pods wait until the next decision (timed);
//   - weighted: the sum of the four parts (of scarcity, the shortage alone) by options
//     alloc_weight, frag_weight, scarcity_weight and waiting_weight.
//
// # Start
//
// num_nodes (64) nodes are drawn without replacement from the node list, or from a cluster
// composed as the published one. Pods are drawn with replacement from one of the pod lists, or
// generated: shapes by the published counts, of the pods with GPUs a part between
// constrained_low and constrained_high (0 to 0.4) bound to GPU models, whose weights vary from
// episode to episode. In timed dynamics they arrive uniformly over as long as the cluster needs
// at the given load, at most 36 years, and run for the list's or for lognormal durations. Pods up to load_start
// are placed by a baseline beforehand.
//
// # End
//
// The episode terminates when no pod is left. In time-free dynamics pods stay for ever, and the
// pods requested come to load_end (1.3) times the cluster's GPUs; one that fits no node when it
// is offered is given up without a decision. In timed dynamics pods wait until they fit. One
// that would fit no node of the empty cluster is given up at its arrival, and one that no end of
// another pod can help is given up at last: pods of a recording that lacks their end run for ever.
//
// # Options
//
// See [Options]. nodes and pods take the files that [gpushare.ReadNodes] and [gpushare.ReadPods] read. What a trace does
// not give of CPU and memory is cpu_per_gpu cores and memory_per_gpu GiB for each GPU. reference_seed with files plays
// the published workload of that random seed.
// trace plays the nodes and pods of a recorded cluster, in timed dynamics beside the pods that ran when the
// episode begins; the last fifth of its pods is the split heldout.
//
// # Baselines
//
// Random, DotProd, GpuClustering, GpuPacking, BestFit and FGD as published; MostAllocated and
// KubeResources, kube-scheduler's scores of CPU and memory; KubeDefault, all of kube-scheduler's
// default scores, where pods of equal shape are replicas of one controller; ScarcityFGD, FGD
// that keeps models free for the pods that can run on no other; WeightedFGD, FGD that weighs
// such scarcity, and how well the pod fits, against fragmentation; RolloutWeightedFGD, which improves
// it by rollouts into futures drawn from the pods that have arrived. They choose devices as they
// were published, which no action can.
//
// # Versions
//
// v2: v1 with option whole_gpus. Pods that want several whole GPUs are the first that fit nowhere, and the rows of v1 do not say
// how many such nodes are left.
//
// v1: what is known of the pods to come (fragmentation, pressure on models, elements 17 to 19 of pod) is
// the law from which they are drawn, and of a recording the part that is not held out. Instances are
// those of v0.
//
// v0: first version. Of generated pods and of recordings, it is known what parts of the very pods that
// come want what, which no scheduler knows.
//
// # Source
//
// Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
// Gradient Descent", USENIX ATC 2023, its artifact (hkust-adsl/kubernetes-scheduler-simulator)
// and the openb trace of Alibaba. DotProd: Grandl et al., "Multi-Resource Packing for Cluster
// Schedulers" (Tetris), SIGCOMM 2014. GpuClustering: Xiao et al., "Gandiva", OSDI 2018.
package gpu
