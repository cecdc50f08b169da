// Package node computes how a Kubernetes node divides its CPU among pods, and which pods lose their
// memory, when the pods want more than the node has.
//
// # CPU
//
// [Share] follows the weights that kubelet gives to cgroups. Each Guaranteed pod and the group of all
// Burstable pods have weights in proportion to their CPU requests; the group of BestEffort pods has
// the least weight, 2 of 1024 for a core. Within its group a pod's weight is its request, too. CPU
// that a group or a pod does not want goes to the others by the same weights, so that no CPU is idle
// while a pod wants it, and a pod that wants no more than its request has all of it as long as the
// requests of the node's pods fit it.
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
// pkg/kubelet/cm/helpers_linux.go (MilliCPUToShares), pkg/kubelet/qos/policy.go
// (GetContainerOOMScoreAdjust), pkg/kubelet/eviction/helpers.go (rankMemoryPressure) and
// eviction_manager.go. Linux: mm/oom_kill.c (oom_badness). A scheduler of the kernel shares CPU by
// weights in each instant; here a share is the mean of a step, as with generalized processor sharing
// (A. Parekh and R. Gallager, IEEE/ACM Transactions on Networking 1, 1993).
package node
