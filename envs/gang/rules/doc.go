// Package rules makes baselines of the planners of package planner, for the environments of
// bulk-synchronous jobs.
package rules
