// Package online refines the profile of a bulk-synchronous job by the durations of its supersteps.
package online
