// Package shadow compares the decisions of a scheduler in a recorded cluster with those of a
// policy, and their results.
//
// [Run] replays the recorded cluster. Each policy also places the same pods, created at the same
// times, in its own copy of the cluster. Run measures all clusters over time and returns a [Report]
// with confidence intervals from a block bootstrap.
//
// # The policy's cluster
//
//   - Pods that ran when the recording began keep their nodes. Pods of DaemonSets, static pods and pods of
//     other schedulers start on their recorded nodes at their recorded times.
//   - Any other pod is pending from its creation, or from the removal of its last scheduling gate. Pending
//     pods are tried by priority, then in the order of arrival: at once, and again after every event that
//     may have made room. Decisions take no time.
//   - A pod that fits no node preempts pods of lower priority, as in kube-scheduler, and respects recorded
//     disruption budgets. Preempted pods are pending again, and later run for the rest of their lifetimes.
//   - A pod runs as long as it ran in the recording. A pod that was never bound there, or never
//     ended, runs to the end; a pod deleted before it was bound is deleted at the recorded time.
//   - A resize takes effect at its recorded time or, if the node lacks room then, as soon as it has room.
//   - Required affinity and anti-affinity between pods and topology spread with DoNotSchedule exclude nodes,
//     as in kube-scheduler's filters. Preferences exclude nodes that score more than [Margin] below the best.
//   - When a node is removed, pods that also ran on it in the recording end, as recorded. Other pods on it
//     are pending again, and later run for the rest of their lifetimes.
//
// A policy sees the present nodes and pods, but no lifetimes.
//
//   - history.go: the history of each pod in a recording
//   - world.go, lifecycle.go, queue.go, pod_rules.go, prefer.go, preempt.go, budget.go: a cluster with its scheduling queue and filters
//   - replay.go: replays a recording, as recorded and with a policy
//   - meter.go, bootstrap.go, report.go: measures, intervals, the report; html.go: its page
package shadow
