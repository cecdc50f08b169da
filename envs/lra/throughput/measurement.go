package throughput

import (
	"github.com/kubernasium/kubernasium/envs/lra"
)

// A Measurement is one row of a profile: measured throughputs and latencies of a node's containers.
// Entries of absent applications are 0.
type Measurement struct {
	Counts     lra.Counts
	RPS        [lra.NumApps]float64 // of a container, relative to running alone; 0 of a present application is a failed measurement
	RT50, RT99 [lra.NumApps]float64 // seconds of the median and the 99th percentile; 0 if not measured
}
