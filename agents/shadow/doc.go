// Package shadow compares what a scheduler did in a recorded cluster with what a policy would have
// done, and what each led to.
//
// The recorded cluster is replayed as it was. Beside it, each policy has a cluster of its own: the
// same nodes, and the same pods at the same times, but placed by the policy. [Run] measures all of
// them by the clock and returns a [Report], in which intervals come from a block bootstrap.
//
// # The policy's cluster
//
//   - Pods that ran when the recording began stay where they were; so do pods of DaemonSets, static pods and
//     pods of other schedulers, which go to their recorded nodes at their recorded times.
//   - Any other pod waits from its creation, or from the removal of its last scheduling gate. Pods
//     that wait are tried by priority, then in the order of arrival: at once, and again whenever
//     something may have made room. Decisions take no time.
//   - A pod that fits nowhere evicts pods of lower priority, as kube-scheduler does, with regard to recorded
//     disruption budgets. Those wait again, to run for the rest of their lifetimes.
//   - A pod runs as long as it ran in the recording. A pod that was never bound there, or never
//     ended, runs to the end; one that was deleted before it was bound is deleted at that time.
//   - A resize takes effect at its recorded time or, where the node lacks room, as soon as it has it.
//   - Required affinity and anti-affinity between pods and topology spread with DoNotSchedule close nodes,
//     as kube-scheduler's filters do. Preferences close those that score more
//     than [Margin] below the best one.
//   - When a node is removed, a pod on it that ran there in the recording too is lost, as there; any
//     other waits again, to run for the rest of its lifetime.
//
// A policy sees the present only: nodes, running and waiting pods. It sees no lifetimes.
//
//   - history.go: what a recording says of each pod
//   - world.go, hold.go, queue.go, between.go, prefer.go, preempt.go, budget.go: a cluster in which pods are placed
//   - replay.go: the recorded cluster and that of a policy, event by event
//   - meter.go, bootstrap.go, report.go: measures, intervals, the report; html.go: its page
package shadow
