// Package trace records a Kubernetes cluster in the format of package clustertrace, and replays recordings in a
// control plane.
//
// [Record] only lists and watches: nodes, pods, priority classes, disruption budgets, persistent volumes and
// their claims. [Replay] creates KWOK nodes, creates the recorded pods at their recorded times, and binds them
// to their recorded nodes, or lets a scheduler bind them.
package trace
