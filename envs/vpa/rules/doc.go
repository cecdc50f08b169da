// Package rules recommends the requests of pods without learning: by quantiles of their usage, by the recommenders of
// other projects, and, as bounds, with knowledge of the future. The environments of vertical pod autoscaling use the
// rules as baselines.
package rules
