// Package pods simulates the pods of a controller with a recommendation, admission, which gives new pods their requests
// and limits, the updater, which evicts and resizes pods, and the controller, scheduler and kubelet of a node in
// memory.
//
// # Source
//
// Admission and updater follow github.com/kubernetes/autoscaler, vertical-pod-autoscaler, 1.8; restarts, back-off and
// evictions follow kubelet. Package node describes a node that is short of CPU or memory.
package pods
