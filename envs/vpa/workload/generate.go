package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// Types of generated workloads. The first four are those of the earlier project.
const (
	Constant   = "constant"    // usage never changes
	LowHigh    = "low_high"    // min_usage and max_usage in turn, period samples of each
	Sinusoidal = "sinusoidal"  // max_usage·(sin θ + 1)/2, θ from 0 to num_peaks·π
	Step       = "step"        // a random walk on fractions of max_usage in steps of step_unit
	RandomWalk = "random_walk" // a law with a slow random walk, and bursts
	Azure      = "azure"       // a law with parameters as in Microsoft's VM trace
	Alibaba    = "alibaba"     // … as in Alibaba's cluster-trace-v2018
	Borg       = "borg"        // … as in Google's Borg trace of 2019
	Arabesque  = "arabesque"   // … of batch pods in phases, one container each
)

// Types returns the types of generated workloads.
func Types() []string {
	return []string{Constant, LowHigh, Sinusoidal, Step, RandomWalk, Azure, Alibaba, Borg, Arabesque}
}

// Amounts holds an amount of each resource in the units of a [Config].
type Amounts struct {
	Memory float64 `json:"memory"` // MiB
	CPU    float64 `json:"cpu"`    // millicores
}

const mib = 1 << 20

func (a Amounts) at(cpu, mem float64) cluster.Resources {
	return cluster.Resources{MilliCPU: round(a.CPU * cpu), MemoryBytes: round(a.Memory * mem * mib)}
}

// Resources returns a in millicores and bytes.
func (a Amounts) Resources() cluster.Resources { return a.at(1, 1) }

// round is math.Round of an amount in its bounds.
func round(x float64) int64 {
	x = min(max(x, 0), maxAmount)
	n := int64(x)
	return n + int64(2*(x-float64(n))) // without a branch, which would be unpredictable
}

// Container holds the requests and limits of a workload's container.
type Container struct {
	Requests Amounts `json:"requests"`
	Limits   Amounts `json:"limits"`
}

// Config describes a generated workload, as the JSON files of `trainer vpa workload` do. Pairs
// are memory first, then CPU, as in the earlier project.
type Config struct {
	Type         string     `json:"type"`
	Timesteps    int        `json:"timesteps"`
	TimeInterval float64    `json:"time_interval"` // seconds between samples
	Seed         uint64     `json:"seed"`
	Usage        Amounts    `json:"usage,omitzero"`          // constant
	MinUsage     Amounts    `json:"min_usage,omitzero"`      // low_high
	MaxUsage     Amounts    `json:"max_usage,omitzero"`      // low_high, sinusoidal, step
	Period       int        `json:"period,omitzero"`         // low_high: samples at each level; default 1
	NumPeaks     int        `json:"num_peaks,omitzero"`      // sinusoidal: half periods in the series
	Phase        float64    `json:"phase,omitzero"`          // sinusoidal: θ at the start
	Start        [2]float64 `json:"start_fraction,omitzero"` // step: of max_usage, memory and CPU
	Unit         [2]float64 `json:"step_unit,omitzero"`      // step: likewise
	MaxSteps     [2]int     `json:"max_steps,omitzero"`      // step: maximum number of units in a sample
	Law          Law        `json:"law,omitzero"`            // random_walk and the types named after traces; zero draws one by seed
	Container    Container  `json:"container,omitzero"`      // requests and limits of the pod; zero: unknown
}

// DefaultConfig returns the parameters of the earlier project for its types, and for the others 1440 minutes of a law
// drawn with seed 42.
func DefaultConfig(kind string) (Config, error) {
	c := Config{
		Type: kind, Timesteps: 10, TimeInterval: 60, Seed: 42,
		Container: Container{Requests: Amounts{1000, 500}, Limits: Amounts{5000, 2000}},
	}
	switch kind {
	case Constant:
		c.Usage = Amounts{1000, 100}
	case LowHigh:
		c.MinUsage, c.MaxUsage, c.Period = Amounts{2500, 500}, Amounts{5000, 1000}, 1
	case Sinusoidal:
		c.Timesteps, c.MaxUsage, c.NumPeaks = 100, Amounts{5000, 1000}, 5
	case Step:
		c.MaxUsage, c.Start, c.Unit, c.MaxSteps = Amounts{5000, 1000}, [2]float64{.5, .5}, [2]float64{.01, .01}, [2]int{1, 1}
	case RandomWalk, Azure, Alibaba, Borg, Arabesque:
		c.Timesteps, c.Container = 1440, Container{}
	default:
		return c, fmt.Errorf("workload type %q, want one of %s", kind, strings.Join(Types(), ", "))
	}
	return c, nil
}

// ReadConfig reads a Config from JSON over the defaults of its type. An unknown key is an error, and so are parameters
// that Validate rejects.
func ReadConfig(r io.Reader) (Config, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return Config{}, err
	}
	var kind struct{ Type string }
	if err := json.Unmarshal(data, &kind); err != nil {
		return Config{}, fmt.Errorf("workload config: %w", err)
	}
	c, err := DefaultConfig(kind.Type)
	if err != nil {
		return c, err
	}
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return c, fmt.Errorf("workload config: %w", err)
	}
	return c, c.Validate()
}

// Validate checks the parameters that c's type reads.
func (c *Config) Validate() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("workload "+c.Type+": "+format, args...))
		}
	}
	amounts := func(name string, a Amounts) {
		want(a.CPU >= 0 && a.CPU <= 1e9 && a.Memory >= 0 && a.Memory <= 1e9, "%s %+v, want each from 0 to 1e9", name, a)
	}
	want(slices.Contains(Types(), c.Type), "no such type, want one of %s", strings.Join(Types(), ", "))
	want(c.Timesteps >= 1 && c.Timesteps <= maxIntervals, "timesteps is %d, want 1 to %d", c.Timesteps, maxIntervals)
	want(c.TimeInterval >= 1e-3 && c.TimeInterval <= 1e6, "time_interval is %v, want 0.001 to 1e6", c.TimeInterval)
	amounts("usage", c.Usage)
	amounts("min_usage", c.MinUsage)
	amounts("max_usage", c.MaxUsage)
	amounts("container requests", c.Container.Requests)
	amounts("container limits", c.Container.Limits)
	switch c.Type {
	case LowHigh:
		want(c.Period >= 1, "period is %d, want 1 or more", c.Period)
	case Sinusoidal:
		want(c.NumPeaks >= 1, "num_peaks is %d, want 1 or more", c.NumPeaks)
		want(math.Abs(c.Phase) <= 1e3, "phase is %v, want -1000 to 1000", c.Phase)
	case Step:
		for r := range 2 {
			want(c.Start[r] >= 0 && c.Start[r] <= 1, "start_fraction is %v, want 0 to 1", c.Start[r])
			want(c.Unit[r] >= 0 && c.Unit[r] <= 1, "step_unit is %v, want 0 to 1", c.Unit[r])
			want(c.MaxSteps[r] >= 0 && c.MaxSteps[r] <= 1e6, "max_steps is %d, want 0 to 1000000", c.MaxSteps[r])
		}
	case RandomWalk, Azure, Alibaba, Borg, Arabesque:
		if c.Law != (Law{}) {
			if err := c.Law.validate(); err != nil {
				errs = append(errs, fmt.Errorf("workload %s: %w", c.Type, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Interval returns the time between samples.
func (c *Config) Interval() time.Duration {
	return time.Duration(math.Round(c.TimeInterval * float64(time.Second)))
}

// Series generates the workload of c's own seed. If c.Law is zero, Series draws and sets it.
func (c *Config) Series() (Series, error) {
	if err := c.Validate(); err != nil {
		return Series{}, err
	}
	if c.fromLaw() && c.Law == (Law{}) {
		c.Law = drawLaw(c.Type, rand.New(pcg.New(c.Seed)))
	}
	rng := rand.New(pcg.New(^c.Seed)) // another stream than that of the parameters, so that equal parameters give equal series
	return Series{
		ID: fmt.Sprintf("%s-%d", c.Type, c.Seed), Interval: c.Interval(), Usage: c.Append(context.Background(), nil, rng),
		Requests: c.Container.Requests.Resources(), Limits: c.Container.Limits.Resources(),
	}, nil
}

func (c *Config) fromLaw() bool {
	switch c.Type {
	case Constant, LowHigh, Sinusoidal, Step:
		return false
	}
	return true
}

// Append appends the samples of c, which must be valid, to dst. Only the random types read rng. It allocates memory
// only for samples beyond dst's capacity. When ctx ends, Append appends fewer samples.
func (c *Config) Append(ctx context.Context, dst []cluster.Resources, rng *rand.Rand) []cluster.Resources {
	if ctx.Err() != nil {
		return dst
	}
	dst = slices.Grow(dst, c.Timesteps)
	switch c.Type {
	case Constant:
		for range c.Timesteps {
			dst = append(dst, c.Usage.at(1, 1))
		}
	case LowHigh:
		for i := range c.Timesteps {
			if i/c.Period%2 == 0 {
				dst = append(dst, c.MinUsage.at(1, 1))
			} else {
				dst = append(dst, c.MaxUsage.at(1, 1))
			}
		}
	case Sinusoidal:
		for i := range c.Timesteps {
			theta := c.Phase + float64(c.NumPeaks)*math.Pi*float64(i)/float64(max(c.Timesteps-1, 1))
			f := (math.Sin(theta) + 1) / 2
			dst = append(dst, c.MaxUsage.at(f, f))
		}
	case Step:
		at := c.Start
		for range c.Timesteps {
			dst = append(dst, c.MaxUsage.at(at[1], at[0]))
			for r := range at {
				k := rng.IntN(2*c.MaxSteps[r]+1) - c.MaxSteps[r]
				at[r] = min(max(at[r]+float64(k)*c.Unit[r], 0), 1)
			}
		}
	default:
		dst = c.Law.append(ctx, dst, c.Timesteps, c.TimeInterval, rng)
	}
	return dst
}
