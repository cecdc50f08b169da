package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kubernasium/kubernasium/envs"
)

// Durations of the measurement before a vector is spread.
const (
	measureFor    = 200 * time.Millisecond
	measureWithin = 20 * time.Second // slower servers get no environments if others answer
)

// sameSpeed is the ratio of the fastest to the slowest server up to which all get the same number of environments. Two
// concurrent measurements of one server differ by less on an idle machine.
const sameSpeed = 1.25

// Spread makes one vector of n environments of id, with a part on each server of urls; the parts step concurrently.
// k8s+dns://name:port stands for all servers behind a host name. For any split, batches equal those of one server and
// of this process bit for bit: environment i is row i, with the seeds of row i.
//
// The sizes of the parts are proportional to opts.Weights, one for each server. Without weights, Spread measures the
// speed of all servers concurrently for 0.2 s, and ignores differences of up to a quarter. A server that does not
// answer gets no environments, and a slow one may get none. If a server fails, another takes over its part: Spread sets
// [Options.Others].
func Spread(ctx context.Context, urls []string, id string, n int, opts Options) (*Joined, error) {
	servers, err := Resolve(ctx, urls)
	if err != nil {
		return nil, err
	}
	if opts.Sizes != nil {
		return spread(ctx, urls, servers, id, n, opts.Sizes, opts)
	}
	weights := opts.Weights
	switch {
	case n < 1 || len(servers) == 0:
		return nil, fmt.Errorf("client: %d environments on %d servers, want at least one of each", n, len(servers))
	case weights != nil && (len(weights) != len(servers) || slices.Max(weights) <= 0 || slices.Min(weights) < 0):
		return nil, fmt.Errorf("client: weights %v for %d servers, want a positive one for each, or 0 for none", weights, len(servers))
	case weights == nil && len(servers) == 1:
		weights = []float64{1}
	case weights == nil:
		if weights, err = measure(ctx, servers, id, (n+len(servers)-1)/len(servers), opts); err != nil {
			return nil, err
		}
	}
	return spread(ctx, urls, servers, id, n, apportion(n, weights), opts)
}

// spread makes parts of these sizes on servers, the resolved urls.
func spread(ctx context.Context, urls, servers []string, id string, n int, sizes []int, opts Options) (*Joined, error) {
	sum := 0
	for _, size := range sizes {
		sum += size
	}
	if len(sizes) == 0 || slices.Min(sizes) < 0 || sum != n || len(servers) == 0 {
		return nil, fmt.Errorf("client: parts of %v for %d environments on %d servers", sizes, n, len(servers))
	}
	servers = slices.Repeat(servers, (len(sizes)+len(servers)-1)/len(servers))[:len(sizes)]
	parts, errs := make([]*VecEnv, len(servers)), make([]error, len(servers))
	concurrently(servers, func(k int) {
		if sizes[k] > 0 {
			o := opts
			o.Others = append(slices.Clone(servers[k+1:]), urls...) // the next first, so that different servers take over different parts
			parts[k], errs[k] = Dial(ctx, servers[k], id, sizes[k], o)
		}
	})
	parts = slices.DeleteFunc(parts, func(v *VecEnv) bool { return v == nil })
	var j *Joined
	err := errors.Join(errs...)
	if err == nil {
		j, err = Join(parts...)
	}
	if err != nil {
		for _, p := range parts {
			err = errors.Join(err, p.Close())
		}
		return nil, err
	}
	return j, nil
}

// A probe is a vector that measures a server.
type probe struct {
	v     *VecEnv
	speed float64 // environment steps per second
	err   error
}

// measure returns the environment steps per second of each server, with n temporary environments that take random
// actions. It is 0 for a server that does not answer in time, and equal for all if one cannot be measured.
func measure(ctx context.Context, servers []string, id string, n int, opts Options) ([]float64, error) {
	bounded, cancel := context.WithTimeout(ctx, measureWithin)
	defer cancel()
	opts.Others, opts.Reconnect, opts.Autoreset = nil, -1, envs.SameStep
	probes := make([]probe, len(servers))
	concurrently(servers, func(k int) { probes[k].v, probes[k].err = Dial(bounded, servers[k], id, n, opts) })
	concurrently(servers, func(k int) {
		if p := &probes[k]; p.v != nil {
			p.speed, p.err = p.v.speed(bounded)
			_ = p.v.Close() // there is nothing to save
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var failures error
	speeds, equal := make([]float64, len(servers)), make([]float64, len(servers))
	unknown := false
	for k, p := range probes {
		if p.v == nil && !unavailable(p.err) {
			return nil, p.err // all servers would return it
		}
		if speeds[k] = p.speed; p.v != nil {
			equal[k] = 1
		}
		unknown = unknown || p.v != nil && p.err != nil && !unavailable(p.err)
		failures = errors.Join(failures, p.err)
	}
	switch {
	case slices.Max(equal) == 0:
		return nil, failures
	case unknown || slices.Max(speeds) == 0 || similar(speeds):
		return equal, nil
	}
	return speeds, nil
}

// concurrently calls do for all servers concurrently.
func concurrently(servers []string, do func(k int)) {
	var all sync.WaitGroup
	for k := range servers {
		all.Go(func() { do(k) })
	}
	all.Wait()
}

// unavailable reports whether err means that a server does not answer or has no room, so that others may serve instead.
func unavailable(err error) bool {
	var refused *Error
	switch {
	case errors.Is(err, ErrUnauthorized), errors.Is(err, ErrUnsupported):
		return false
	case errors.As(err, &refused):
		return errors.Is(err, ErrBusy) || errors.Is(err, ErrUnavailable)
	}
	return true
}

// speed returns the environment steps per second of v.
func (v *VecEnv) speed(ctx context.Context) (float64, error) {
	seed := uint64(0)
	if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
		return 0, err
	}
	random := v.Baseline(envs.RandomName, seed)
	begin, steps := time.Now(), 0
	for steps == 0 || time.Since(begin) < measureFor {
		if _, err := random.Step(ctx); err != nil {
			return 0, err
		}
		steps++
	}
	return float64(steps*v.layout.N) / time.Since(begin).Seconds(), nil
}

// similar reports whether the servers that answer differ by no more than sameSpeed.
func similar(speeds []float64) bool {
	fastest := slices.Max(speeds)
	return !slices.ContainsFunc(speeds, func(s float64) bool { return s > 0 && fastest > sameSpeed*s })
}

// apportion divides n in proportion to weights, at least one of which is positive: shares are rounded down, and those
// with the largest remainders get one more.
//
// Source: the method of largest remainders, T. Hare, "The Election of Representatives", 1859.
func apportion(n int, weights []float64) []int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	sizes, rest := make([]int, len(weights)), make([]int, len(weights))
	remainders := make([]float64, len(weights))
	left := n
	for k, w := range weights {
		exact := float64(n) * (w / sum)
		sizes[k], rest[k] = int(exact), k
		remainders[k] = exact - float64(sizes[k])
		left -= sizes[k]
	}
	slices.SortStableFunc(rest, func(a, b int) int { return cmp.Compare(remainders[b], remainders[a]) })
	for i := range left {
		sizes[rest[i%len(rest)]]++
	}
	return sizes
}
