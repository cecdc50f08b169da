// Package rules turns the planners of package planner into baselines of the environments of bulk-synchronous jobs.
package rules
