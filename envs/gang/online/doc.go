// Package online refines the profile of a bulk-synchronous job from the durations of its supersteps.
package online
