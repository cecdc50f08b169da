// Package profile models the durations of the tasks of a bulk-synchronous job, by workload size and CPU share: measured
// profiles, laws fitted to them, and splines tabulated for planners.
package profile
