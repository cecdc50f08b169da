// Package rules recommends what pods request without learning: by quantiles of their usage, by the recommenders of
// other projects, and, for bounds, with knowledge of the future. The environments of vertical pod autoscaling have the
// rules as baselines.
package rules
