// Package workload generates and reads the demand of containers over time: the CPU and memory that a pod would use
// without limits.
//
// [Config] generates a series from parameters, which [Draw] chooses at random for a type. [ReadFiles] reads a file or a
// folder of usage: CSV, a dump of the earlier project's form, the public traces of Azure, Alibaba (2018) and Google's
// Borg (2019), replies of Prometheus, or output of metrics-server's API and of `kubectl top pod`. [ReadCSV],
// [ReadArabesque] and [ReadPrometheus] read from other sources than files. All return series on a regular grid and
// reject invalid data: see [Grid].
//
// CPU is in millicores and memory in bytes, except in a Config, whose memory is in MiB.
package workload
