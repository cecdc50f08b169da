package profile

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// A Container is a running container to load.
type Container struct {
	App       string // name, one of [lra.Apps]
	Pod       string
	Namespace string
	Node      string
	Address   string // IP of the pod
}

// An Answer is a container's result under load.
type Answer struct {
	RPS  float64 // requests per second, or another unit that all measurements of the application share
	RT50 float64 // median response time in seconds; 0 if not measured
	RT99 float64 // 99th percentile in seconds; 0 if not measured
}

// A Load loads the containers of a node and measures them. Several goroutines use it, one per node.
type Load interface {
	// Measure loads all containers at the same time and returns an answer for each. The containers are those
	// of a combination, in application order. try counts the measurements of a combination, from 0. An error
	// concerns only this measurement, which the caller may repeat.
	Measure(ctx context.Context, c lra.Counts, try int, containers []Container) ([]Answer, error)
	// Setting describes the load. Measurements with different settings are not mixed.
	Setting() string
}

// Law answers from a table, for KWOK's nodes, on which nothing runs.
type Law struct {
	Table *lra.Table
	Noise float64 // standard deviation of the logarithm of a container's throughput
	Seed  uint64  // of the noise, which is a function of seed, combination and try
	Name  string  // of the table
}

// clients is the number of clients of a simulated container. Each waits for a response before its next request.
// Alone on its node, the container serves one request per second. Response times are exponential.
const clients = 4

// Measure implements [Load].
func (l *Law) Measure(ctx context.Context, c lra.Counts, try int, containers []Container) ([]Answer, error) {
	s, err := lra.StateOf(c)
	if err != nil {
		return nil, err
	}
	rng := rand.New(pcg.New(l.Seed ^ (uint64(s)<<32 | uint64(try))))
	var all []Answer
	for a, n := range c {
		for range n {
			rps := l.Table.RPS[s][a] * math.Exp(l.Noise*rng.NormFloat64())
			mean := clients / rps // Little's law
			all = append(all, Answer{RPS: rps, RT50: mean * math.Ln2, RT99: mean * math.Log(100)})
		}
	}
	return all, ctx.Err()
}

// Setting implements [Load].
func (l *Law) Setting() string {
	return fmt.Sprintf("law of %s with noise %v of seed %d", l.Name, l.Noise, l.Seed)
}
