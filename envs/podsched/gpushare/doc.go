// Package gpushare models clusters whose nodes share GPUs among pods: the published trace and its
// workloads, what is free on nodes and how fragmented it is, the policies that choose nodes and
// devices, and the simulation of a scheduler with profiles of such policies and of kube-scheduler's
// plugins. It is the domain of the environment of package gpu.
//
//   - trace.go, workload.go: nodes and pods of files, and the reference's workloads
//   - inventory.go, catalogue.go, frag.go, reserve.go: what is free, and what pods to come can use of it
//   - score*.go, plugins.go: scores of nodes; policies.go, policy_scarcity.go, profile.go: choices by them
//   - simulation.go, scheduler.go, deschedule.go, reproduce.go: whole runs
package gpushare
