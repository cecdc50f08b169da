// Package profile models how long the tasks of a bulk-synchronous job take, by workload size and
// CPU share: measured profiles, laws fitted to them, and splines tabulated for planners.
package profile
