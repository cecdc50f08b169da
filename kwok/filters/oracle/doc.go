// Package oracle compares package filters with kube-scheduler's own plugins, and preemption with what they
// say when pods go. It has no code but tests, and is a module of its own since Kubernetes is compiled for it.
package oracle
