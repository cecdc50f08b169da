package recommender

import (
	"fmt"
	"time"
)

// MaxAmount is the largest amount of a resource, in millicores or bytes. An upper bound without history is MaxAmount.
const MaxAmount = int64(1e14)

const (
	minSampleWeight = 0.1                     // of a CPU sample before decay
	epsilon         = 0.001 * minSampleWeight // a bucket lighter than this is empty
	maxDecay        = 100                     // half-lives after which weights are scaled down
)

// A ResourceConfig configures the histogram and the estimators of one resource.
type ResourceConfig struct {
	LowerPercentile    float64       // of the lower bound, in (0, 1]; default 0.5
	TargetPercentile   float64       // of the target, in [LowerPercentile, 1]; default 0.9
	UpperPercentile    float64       // of the upper bound, in [TargetPercentile, 1]; default 0.95
	ConfidenceInterval time.Duration // history for a confidence of 1; default 24 h
	HalfLife           time.Duration // of a sample's weight, at most a year; default 24 h
}

// Config holds upstream's flags, under their names.
type Config struct {
	CPU, Memory ResourceConfig

	MarginFraction   float64 // recommendation-margin-fraction, ≥ 0; default 0.15
	MinCPUMillicores float64 // pod-recommendation-min-cpu-millicores, ≥ 0; default 25
	MinMemoryMB      float64 // pod-recommendation-min-memory-mb, in MiB, ≥ 0; default 250
	Containers       int     // containers of the pod, which share the minimum; default 1

	MemoryInterval      time.Duration // memory-aggregation-interval: one peak in each, at most a year; default 24 h
	MemoryIntervalCount int           // memory-aggregation-interval-count until a state expires, 1 to 100; default 8

	OOMBumpUpRatio    float64 // oom-bump-up-ratio, ≥ 1; default 1.2
	OOMMinBumpUpBytes float64 // oom-min-bump-up-bytes, ≥ 0; default 100 MiB

	RoundCPUMillicores int64 // round-cpu-millicores: round up to a multiple of it, ≥ 1; default 1
	RoundMemoryBytes   int64 // round-memory-bytes: round up to a multiple of it, ≥ 1; default 1
}

// DefaultConfig returns upstream's defaults.
func DefaultConfig() Config {
	resource := ResourceConfig{
		LowerPercentile: 0.5, TargetPercentile: 0.9, UpperPercentile: 0.95,
		ConfidenceInterval: 24 * time.Hour,
		HalfLife:           24 * time.Hour,
	}
	return Config{
		CPU: resource, Memory: resource,
		MarginFraction:      0.15,
		MinCPUMillicores:    25,
		MinMemoryMB:         250,
		Containers:          1,
		MemoryInterval:      24 * time.Hour,
		MemoryIntervalCount: 8,
		OOMBumpUpRatio:      1.2,
		OOMMinBumpUpBytes:   100 << 20,
		RoundCPUMillicores:  1,
		RoundMemoryBytes:    1,
	}
}

// validate returns an error that names the first field out of its range.
func (c *Config) validate() error {
	if err := c.CPU.validate("CPU"); err != nil {
		return err
	}
	if err := c.Memory.validate("Memory"); err != nil {
		return err
	}
	for _, f := range []struct {
		name       string
		value, low float64
	}{
		{"MarginFraction", c.MarginFraction, 0},
		{"MinCPUMillicores", c.MinCPUMillicores, 0},
		{"MinMemoryMB", c.MinMemoryMB, 0},
		{"Containers", float64(c.Containers), 1},
		{"MemoryIntervalCount", float64(c.MemoryIntervalCount), 1},
		{"OOMBumpUpRatio", c.OOMBumpUpRatio, 1},
		{"OOMMinBumpUpBytes", c.OOMMinBumpUpBytes, 0},
		{"RoundCPUMillicores", float64(c.RoundCPUMillicores), 1},
		{"RoundMemoryBytes", float64(c.RoundMemoryBytes), 1},
	} {
		if !(f.value >= f.low && f.value <= float64(MaxAmount)) {
			return fmt.Errorf("recommender: %s %v, want a number from %v to %v", f.name, f.value, f.low, float64(MaxAmount))
		}
	}
	if c.MemoryInterval <= 0 || c.MemoryInterval > year {
		return fmt.Errorf("recommender: MemoryInterval %v, want more than 0, at most a year", c.MemoryInterval)
	}
	if c.MemoryIntervalCount > maxCount {
		return fmt.Errorf("recommender: MemoryIntervalCount %d, want at most %d", c.MemoryIntervalCount, maxCount)
	}
	return nil
}

func (c *ResourceConfig) validate(resource string) error {
	if !(0 < c.LowerPercentile && c.LowerPercentile <= c.TargetPercentile &&
		c.TargetPercentile <= c.UpperPercentile && c.UpperPercentile <= 1) {
		return fmt.Errorf("recommender: %s percentiles %v, %v, %v, want 0 < lower ≤ target ≤ upper ≤ 1",
			resource, c.LowerPercentile, c.TargetPercentile, c.UpperPercentile)
	}
	if c.ConfidenceInterval <= 0 {
		return fmt.Errorf("recommender: %s.ConfidenceInterval %v, want more than 0", resource, c.ConfidenceInterval)
	}
	if c.HalfLife <= 0 || c.HalfLife > year {
		return fmt.Errorf("recommender: %s.HalfLife %v, want more than 0, at most a year", resource, c.HalfLife)
	}
	return nil
}
