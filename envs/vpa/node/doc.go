// Package node computes how a Kubernetes node with too little CPU or memory divides its CPU among pods, and which pods
// lose their memory.
//
// # CPU
//
// [Share] uses the weights that kubelet gives to cgroups. Each Guaranteed pod and the group of all Burstable pods have
// weights in proportion to their CPU requests; the group of BestEffort pods has the least weight, 2 of 1024 for a core.
// Within its group a pod's weight is also its request. Unwanted CPU of a group or a pod goes to the others by the same
// weights, so no CPU is idle while a pod wants it. A pod that wants no more than its request gets all of it, as long as
// the requests of all pods fit the node.
//
// # Memory
//
// If the pods' memory exceeds the node's, the kernel kills containers by their score, the memory in
// use plus adj/1000 of the node's memory ([OOMVictim]). adj is -997 for Guaranteed, 1000 for BestEffort, and for
// Burstable 1000 - 1000·request/capacity, within 3 to 999 ([OOMScoreAdj]).
// If less memory than the hard eviction threshold is left, kubelet evicts pods: first those whose
// usage exceeds their request, then by usage above the request, largest first ([EvictionVictim]).
// It evicts one pod in each interval of 10 s. All pods here have equal priority.
//
// # Source
//
// kubernetes/kubernetes: pkg/kubelet/cm/qos_container_manager_linux.go (setCPUCgroupConfig),
// pkg/kubelet/cm/helpers_linux.go (MilliCPUToShares), pkg/kubelet/qos/policy.go (GetContainerOOMScoreAdjust),
// pkg/kubelet/eviction/helpers.go (rankMemoryPressure) and eviction_manager.go. Linux: mm/oom_kill.c (oom_badness). The
// kernel's scheduler shares CPU by weights at each instant; here a share is the mean of a step, as in generalized
// processor sharing (A. Parekh and R. Gallager, IEEE/ACM Transactions on Networking 1, 1993).
package node
