// Package series reads, generates, scales and forecasts the workload series of a bulk-synchronous
// job.
package series
