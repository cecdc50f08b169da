// Package scheduler lets a policy that was made for a simulated cluster place the pods of a real
// API server: a trained model over nodes, or a baseline.
//
// It does so in four ways. As a second scheduler, [Scheduler.Run] binds the pending pods that name
// it. As an extender of kube-scheduler, [Scheduler.Handler] answers /filter and /prioritize. As a
// service, it answers POST /score. In shadow mode it binds nothing, and records what it would
// have done beside what another scheduler did.
//
// In all of them the moment is built in the same way: the informers' nodes and pods become a
// [cluster.State], nodes that are closed to the pod (taints, affinity, cordon) are cordoned in it,
// and an [envs.Live] task observes it. The policy has a budget of time; when that is over, or the
// policy fails, kube-scheduler's own scores choose (package kubescore).
//
// What other pods, host ports and volumes say against a node is seen to by package filters. As an
// extender it does not matter: kube-scheduler has filtered the nodes before it asks.
//
// A pod that fits nowhere preempts pods of lower priority on one node, within their disruption budgets.
// What it does not do: resource claims, with which a pod is left alone with an event that says so.
package scheduler
