// Package kwok plays episodes on a Kubernetes API server whose nodes are simulated by KWOK: the
// same environments, through real objects, watches and subresources.
//
// [Cluster] is a [cluster.Cluster] over client-go. Each has a namespace of its own, and its nodes
// bear a label with that namespace, so that many share one control plane. The rules of
// [cluster.State] decide what is legal and predict what follows; each op then becomes calls of
// the API, and every method waits until the watched objects are as predicted. Objects that do not
// become so within a bounded time are an error that prints both sides ([ErrDiverged]). No
// timestamp of the API enters a State.
//
// # Time
//
// The clock of a Cluster is its own and moves by Advance only. A pod carries its duration as an
// annotation. When the clock passes its end, Advance sets the annotation of KWOK's stage
// pod-complete-after to 0 s, and waits until the stage has completed the pod. So time is exact to
// the nanosecond, environments at different times share a control plane, and KWOK may run by any
// clock.
//
// # Twins
//
// The package registers a twin of each environment of package all that acts on a cluster:
// k8s/GangWindow-v0 has k8s/GangWindowKwok-v0. Its options are those of the environment and
// [Options].
package kwok
