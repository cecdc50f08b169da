// Package gpushare models clusters whose nodes share GPUs among pods: the published trace and its workloads, the free
// resources of nodes and their fragmentation, the policies that choose nodes and devices, and a scheduler simulation
// with profiles of such policies and of kube-scheduler's plugins. The environment of package gpu builds on it.
//
//   - trace.go, workload.go: nodes and pods of files, and the reference's workloads
//   - inventory.go, catalogue.go, frag.go, reserve.go: free resources, and what future pods can use of them
//   - score*.go, plugins.go: scores of nodes; policies.go, policy_scarcity.go, profile.go: choices by them
//   - simulation.go, scheduler.go, deschedule.go, reproduce.go: whole runs
package gpushare
