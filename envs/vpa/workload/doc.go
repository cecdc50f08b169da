// Package workload makes and reads the usage of containers over time: what a pod would use of
// CPU and memory if nothing held it back.
//
// [Config] generates a series from parameters, which [Draw] chooses at random for a family.
// Readers take the formats of public traces and of monitoring systems: [ReadCSV],
// [ReadArabesque], [ReadAzure], [ReadAlibaba], [ReadBorg], [ReadPrometheus]; [ReadFiles] reads
// a file or a folder of any of them. What they give is on a regular grid, and they refuse what
// cannot be right: see [Grid].
//
// CPU is in millicores and memory in bytes, except in a Config, whose memory is in MiB.
package workload
