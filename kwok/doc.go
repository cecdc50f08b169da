// Package kwok plays episodes on a Kubernetes API server whose nodes KWOK simulates: the same environments,
// through real objects, watches and subresources.
//
// [Cluster] is a [cluster.Cluster] over client-go. Each Cluster has its own namespace and labels its nodes with
// it, so that many share one control plane. The rules of [cluster.State] decide which ops are legal and predict
// their effect. Each op becomes API calls, and every method waits until the watched objects match the
// prediction. If they do not match within a time limit, the error prints both sides ([ErrDiverged]). No
// timestamp of the API enters a State.
//
// # Time
//
// A Cluster has its own clock, which only Advance moves. An annotation holds a pod's duration. When the clock
// passes the pod's end, Advance sets the annotation of KWOK's stage pod-complete-after to 0 s, and waits until
// the stage has completed the pod. So time is exact to the nanosecond, environments at different times share a
// control plane, and KWOK may use any clock.
//
// # Twins
//
// For each environment of package all that acts on a cluster, this package registers a twin: the same
// environment on an API server. k8s/GangWindow-v0 has the twin k8s/GangWindowKwok-v0. A twin has the
// environment's options and those of [Options].
package kwok
