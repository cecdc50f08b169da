// Package clustertrace reads and writes recordings of a Kubernetes cluster: which nodes it had,
// which pods came, what they asked for, where they were bound, and when they ended.
//
// A recording is a stream of [Event], one line of JSON each, after a line with the [Header]. Lines
// are compressed with zstd or gzip. Nodes, pods and templates are numbered in the order of
// their first lines, and later lines name them by number. What the pods of a controller have in
// common is a [Template], which is written once. Times are milliseconds after the line before.
//
// [Reader] checks each line against those before it, so that a consumer may rely on the order of a
// pod's life: added, perhaps bound, perhaps running, perhaps finished, deleted. [Load] reads a
// recording whole. docs/cluster-trace.md describes the lines.
package clustertrace
