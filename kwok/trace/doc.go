// Package trace records a Kubernetes cluster into the format of package clustertrace, and replays
// recordings into a control plane.
//
// [Record] only lists and watches: nodes, pods, priority classes, persistent volumes and their claims.
// [Replay] makes nodes that KWOK plays, creates the recorded pods at their times, and binds them where they
// were, or leaves that to a scheduler.
package trace
