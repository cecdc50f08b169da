// Package workload generates and reads the usage of containers over time: what a pod would use of
// CPU and memory if nothing held it back.
//
// [Config] generates a series from parameters, which [Draw] chooses at random for a type.
// [ReadFiles] reads a file or a folder of usage: CSV, a dump of the earlier project's form, the
// public traces of Azure, Alibaba (2018) and Google's Borg (2019), replies of Prometheus, or what
// metrics-server's API and `kubectl top pod` gave;
// [ReadCSV], [ReadArabesque] and [ReadPrometheus] read what is no file. What they give is on a
// regular grid, and they refuse what cannot be right: see [Grid].
//
// CPU is in millicores and memory in bytes, except in a Config, whose memory is in MiB.
package workload
