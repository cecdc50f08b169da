// Package clustertrace reads and writes recordings of a Kubernetes cluster: its nodes, and its pods with their
// requests, bindings and times.
//
// A recording is a stream of [Event], one line of JSON each, after a line with the [Header]. Lines are compressed with
// zstd or gzip. Nodes, pods and templates are numbered in the order of their first lines, and later lines refer to them
// by number. A [Template] holds what the pods of a controller share, and is written once. Times are milliseconds since
// the previous line.
//
// [Reader] checks each line against the earlier ones, so that a consumer may rely on the order of a pod's life: added,
// perhaps bound, perhaps running, perhaps finished, deleted. [Load] reads a whole recording. docs/cluster-trace.md
// describes the lines.
package clustertrace
