package corrections

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/actions"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

// Names of the elements of an observation, for each resource. The second and the third list, and the share of CPU in
// the price of the request, are only of encoding NodeAware.
var (
	baseNames = [...]string{
		"used_over_base", "peak_hour_over_base", "mean_hour_over_base", "peak_day_over_base", "mean_day_over_base", "requested_over_base", "base", "base_guard",
	}
	recentNames = [...]string{
		"mean_3_min", "mean_10_min", "mean_30_min", "5_min_ago", "15_min_ago", "30_min_ago",
		"yesterday_5_min_before", "yesterday_5_min", "yesterday_15_min", "yesterday_30_min", "yesterday_60_min", "limit", "base_limit",
	}
	changeNames = [...]string{"roughness", "since_jump", "before_jump", "until_jump"}
)

const (
	recentSize = len(recentNames) + len(changeNames)
	awareSize  = 2*recentSize + 1
)

// Windows of the usage that the elements show, in minutes.
var (
	meansOf     = [...]int{3, 10, 30}                                       // up to now
	ago         = [...]int{5, 15, 30}                                       // single samples
	yesterdayOf = [...][2]int{{-5, 0}, {0, 5}, {5, 15}, {15, 30}, {30, 60}} // from and to, a day ago
)

// Size returns the number of elements that Observe writes.
func (b *Base) Size() int {
	if b.aware {
		return 2*len(baseNames) + awareSize
	}
	return 2 * len(baseNames)
}

// Names returns the names of the elements that Observe writes.
func (b *Base) Names() (names []string) {
	resources := []string{"cpu_", "memory_"}
	for _, resource := range resources {
		for _, name := range baseNames {
			names = append(names, resource+name)
		}
	}
	if !b.aware {
		return names
	}
	for _, resource := range resources {
		for _, name := range recentNames {
			names = append(names, resource+name+"_over_base")
		}
		for _, name := range changeNames {
			names = append(names, resource+name)
		}
	}
	return append(names, "cpu_share_of_price")
}

// Observe writes amounts over the base's requests, as powers of two from a quarter (-1) to four times (1), and the
// recommendation itself, with onScale for amounts of CPU (0) and memory (1). With encoding NodeAware these follow: more
// amounts over the requests, how rough the usage is, its jumps, and the share of CPU in the price of the request. p is
// one of the pods, and steps take interval seconds.
func (b *Base) Observe(obs []float32, m *metrics.Usage, p *pods.Pod, interval float64, onScale func(r int, v float64) float32) {
	used := m.Last()
	for r := range 2 {
		target, limit, request, now := b.Latest.Target.MilliCPU, b.Latest.Limits.MilliCPU, p.Requests.MilliCPU, used.MilliCPU
		if r == 1 {
			target, limit, request, now = b.Latest.Target.MemoryBytes, b.Latest.Limits.MemoryBytes, p.Requests.MemoryBytes, used.MemoryBytes
		}
		hour, day := &m.Hour[r], &m.Day[r]
		at := obs[r*len(baseNames) : (r+1)*len(baseNames)]
		for i, v := range [...]float64{float64(now), hour.Max(), hour.Mean(), day.Max(), day.Mean(), float64(request)} {
			at[i] = over(v, float64(target))
		}
		at[6] = onScale(r, float64(target))
		at[7] = float32(actions.Guard(target, limit))
	}
	if !b.aware {
		return
	}
	obs = obs[2*len(baseNames):]
	cpu, mem := float64(b.Latest.Target.MilliCPU), float64(b.Latest.Target.MemoryBytes)
	b.observeRecent(obs[:recentSize], 0, m.Seen, cpu, interval, p.Limits.MilliCPU, b.Latest.Limits.MilliCPU)
	b.observeRecent(obs[recentSize:2*recentSize], 1, m.Seen, mem, interval, p.Limits.MemoryBytes, b.Latest.Limits.MemoryBytes)
	obs[awareSize-1] = float32(prices.Cores(cpu, 0) / max(prices.Cores(cpu, mem), 1e-9))
}

// over returns an amount over a request, as an element.
func over(v, request float64) float32 {
	return float32(min(max(math.Log2(max(v, 1)/max(request, 1))/2, -1), 1))
}

// observeRecent writes the elements of recentNames and changeNames for CPU (r = 0) or memory (1).
func (b *Base) observeRecent(obs []float32, r int, seen []cluster.Resources, request, interval float64, limits ...int64) {
	amount := func(u cluster.Resources) float64 {
		if r == 0 {
			return float64(u.MilliCPU)
		}
		return float64(u.MemoryBytes)
	}
	samples := func(minutes int) int { return int(math.Round(float64(minutes) * 60 / interval)) }
	mean := func(from, to int) float32 { // of samples, counted from the end; at least one
		n := len(seen)
		from = min(max(n+from, 0), n-1)
		to = min(max(n+to, from+1), n)
		sum := 0.0
		for _, u := range seen[from:to] {
			sum += amount(u)
		}
		return over(sum/float64(to-from), request)
	}
	next := 0
	put := func(v float32) { obs[next], next = v, next+1 }
	for _, n := range meansOf {
		put(mean(-max(samples(n), 1), 0))
	}
	for _, n := range ago {
		put(mean(-1-samples(n), -samples(n)))
	}
	for _, w := range yesterdayOf {
		put(mean(samples(w[0]-24*60), samples(w[1]-24*60)))
	}
	for _, l := range limits {
		if l == 0 {
			put(1)
		} else {
			put(over(float64(l), request))
		}
	}
	last := seen[max(len(seen)-1-max(samples(30), 1), 0):]
	rough := 0.0
	for i := range len(last) - 1 {
		rough += math.Abs(amount(last[i+1]) - amount(last[i]))
	}
	put(float32(min(rough/float64(max(len(last)-1, 1))/max(request, 1), 1)))
	j := &b.jumps[r]
	put(steps(j.Since))
	put(steps(j.Before))
	until := 1.0
	if j.Before > 0 {
		until = min(max(float64(j.Before-j.Since)/30, -1), 1)
	}
	put(float32(until))
}

// steps maps a number of steps to [0, 1] on a logarithmic scale; 1023 and more are 1.
func steps(n int) float32 { return float32(min(math.Log2(float64(n+1))/10, 1)) }
