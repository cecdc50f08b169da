package world

import (
	"context"
	"fmt"
	"image"
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Sizes of the spaces of k8s/LRAPricing-v0.
const (
	maxPriceAction  = 1   // bound of the actions
	priceScale      = 0.5 // throughput of a container that an action of 1 adds to a price
	pricingFeatures = lra.NumApps + 3
	onlinePeriod    = 200 // containers that are placed at the same prices
)

// pricer is what all tasks of one Open of k8s/LRAPricing-v0 share.
type pricer struct {
	*source
	period int
	base   [lra.NumApps]float64 // prices at an action of 0
}

func newPricer(o PricingOptions) (*pricer, error) {
	if o.Period < 0 || o.Period > maxSteps {
		return nil, invalid("period is %d, want 0 to %d", o.Period, maxSteps)
	}
	src, err := newSource(o.common())
	if err != nil {
		return nil, err
	}
	p := &pricer{source: src, period: o.Period}
	if p.period == 0 {
		p.period = 1
		if o.Arrivals == ArrivalsOnline {
			p.period = onlinePeriod
		}
	}
	p.base = meanValues(src.kinds[0].plan)
	return p, nil
}

// meanValues returns for each application by how much a container of it raises the value of a
// node, in the mean of the states that have one.
func meanValues(m *lra.Model) (mean [lra.NumApps]float64) {
	for a := range lra.NumApps {
		n := 0
		for s := range lra.State(lra.NumStates) {
			if less := s.Remove(a); less != lra.NoState && m.Permits(s) {
				mean[a] += m.Value[s] - m.Value[less]
				n++
			}
		}
		mean[a] /= float64(n)
	}
	return mean
}

// prices sets pi to the prices that an action stands for.
func (p *pricer) prices(pi *[lra.NumApps]float64, action []float32) {
	for a := range pi {
		pi[a] = p.base[a] + priceScale*float64(action[a])
	}
}

// action is the inverse of prices, as far as actions reach.
func (p *pricer) action(dst []float32, pi *[lra.NumApps]float64) {
	for a, v := range pi {
		dst[a] = float32(min(max((v-p.base[a])/priceScale, -maxPriceAction), maxPriceAction))
	}
}

// PricingTask is the environment of k8s/LRAPricing-v0: an action is a price of a container of
// each application. A batch is placed node by node: the next gets the containers, of those left,
// whose value less their prices is highest. A container that arrives goes where the node, with
// what is to come to it at the prices, gains most in worth. It implements [envs.Task].
type PricingTask struct {
	*Task
	src   *pricer
	pi    [lra.NumApps]float64
	worth *[lra.NumStates]float64 // online: of a node and what is to come to it; nil with a batch

	node   int              // batch: the next to fill
	first  [lra.NumApps]int // batch: the first pod of each application that is not bound
	rest   lra.Counts       // batch: containers that are not bound
	placed []cluster.Op
}

var (
	_ envs.Task       = (*PricingTask)(nil)
	_ envs.InfoWriter = (*PricingTask)(nil)
	_ envs.Renderer   = (*PricingTask)(nil)
	_ envs.Cloner     = (*PricingTask)(nil)
	_ envs.Limiter    = (*PricingTask)(nil)
)

func newPricingTask(src *pricer) *PricingTask {
	t := &PricingTask{Task: newTask(src.source, src.opts.Nodes, 1), src: src}
	if t.heap != nil {
		t.worth = new([lra.NumStates]float64)
	}
	return t
}

// MaxEpisodeSteps implements [envs.Limiter].
func (t *PricingTask) MaxEpisodeSteps() int {
	if t.heap == nil {
		return 0
	}
	return (t.src.opts.Containers + t.src.period - 1) / t.src.period
}

// Spaces implements [envs.Task].
func (t *PricingTask) Spaces() (obs, act space.Space) {
	actions := lra.NumApps
	if t.heap != nil {
		actions += rateActions
	}
	return space.NewBox(0, 1, pricingFeatures), space.NewBox(-maxPriceAction, maxPriceAction, actions)
}

// Begin implements [envs.Task].
func (t *PricingTask) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	if err := t.Task.Begin(ctx, c, rng); err != nil {
		return err
	}
	t.node, t.rest = 0, lra.Counts{}
	if t.heap != nil {
		rents(t.src.kinds[0].plan, t.worth)
		return nil
	}
	for pod, a := range t.queue {
		if t.rest[a] == 0 {
			t.first[a] = pod
		}
		t.rest[a]++
	}
	return nil
}

// Apply implements [envs.Task].
func (t *PricingTask) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	t.src.prices(&t.pi, action)
	if t.heap != nil {
		return t.applyArrivals(ctx, c, action[lra.NumApps:])
	}
	before := t.value
	t.placed = t.placed[:0]
	for range t.src.period {
		if t.node == len(t.x) || t.rest.Total() == 0 {
			break
		}
		t.fillNode()
	}
	if err := c.Apply(ctx, t.placed); err != nil {
		return envs.Outcome{}, err
	}
	end := t.rest.Total() == 0
	if end {
		t.next = len(t.queue)
	}
	return envs.Outcome{Reward: t.pay((t.value-before)/float64(len(t.queue)), end), Terminated: end}, nil
}

// fillNode fills the next node, so that the nodes after it have room for the rest.
func (t *PricingTask) fillNode() {
	m := t.src.kinds[0].plan
	s := bestFill(m, t.rest, &t.pi, t.rest.Total()-lra.MaxSlots*(len(t.x)-t.node-1))
	for a, k := range s.Counts() {
		for range k {
			t.placed = append(t.placed, cluster.Op{Kind: cluster.Bind, Pod: int32(t.first[a]), Node: int32(t.node)})
			t.first[a]++
		}
		t.rest[a] -= k
	}
	t.Task.placed += s.Total()
	t.decided += s.Total()
	t.move(t.src.kinds[0], 0, s)
	t.x[t.node] = s
	t.node++
}

// bestFill returns the state, of at least low containers and within rest, whose value less the
// prices of its containers is highest.
func bestFill(m *lra.Model, rest lra.Counts, pi *[lra.NumApps]float64, low int) lra.State {
	best, bestWorth := lra.NoState, math.Inf(-1)
	for s := range lra.State(lra.NumStates) {
		counts := s.Counts()
		if int(s.Total()) < low {
			continue
		}
		worth, ok := m.Value[s], true
		for a, k := range counts {
			if k > rest[a] {
				ok = false
				break
			}
			worth -= pi[a] * float64(k)
		}
		if ok && worth > bestWorth {
			best, bestWorth = s, worth
		}
	}
	return best
}

// Observe implements [envs.Task].
func (t *PricingTask) Observe(_ *cluster.State, obs []float32, _ []bool) {
	clear(obs)
	of, slots := t.rest, lra.MaxSlots*(len(t.x)-t.node)
	share := float32(len(t.x)-t.node) / float32(len(t.x))
	if t.heap != nil {
		of, slots, share = t.running(), t.src.slots, float32(t.vacant)/float32(len(t.x))
	}
	if slots == 0 {
		return
	}
	for a, k := range of {
		obs[a] = float32(k) / float32(slots)
	}
	obs[lra.NumApps] = float32(of.Total()) / float32(slots)
	obs[lra.NumApps+1] = share
	if t.heap == nil {
		obs[lra.NumApps+2] = lra.MaxSlots / float32(slots)
	} else {
		obs[lra.NumApps+2] = float32(min(max(t.value/float64(2*slots), 0), 1))
	}
}

// running returns the containers that run.
func (t *PricingTask) running() lra.Counts { return t.x.Batch() }

// view describes the cluster to the renderers.
func (t *PricingTask) view() *view {
	v := t.Task.view()
	v.title = fmt.Sprintf("prices %.2f  %s", t.pi, v.title)
	return v
}

// RenderANSI implements [envs.Renderer].
func (t *PricingTask) RenderANSI(*cluster.State) string { return t.view().text() }

// RenderRGB implements [envs.Renderer].
func (t *PricingTask) RenderRGB(*cluster.State) *image.RGBA { return t.view().heat() }

// pricing wraps a way to set prices as a rule.
func pricing(set func(t *PricingTask, pi *[lra.NumApps]float64) error) func(envs.Task) (envs.Rule, error) {
	return func(task envs.Task) (envs.Rule, error) {
		t, ok := task.(*PricingTask)
		if !ok {
			return nil, fmt.Errorf("lra: a baseline of pricing for a task of type %T", task)
		}
		return func(_ context.Context, _ *cluster.State, _ bool, action []float32) error {
			pi := t.src.base
			if err := set(t, &pi); err != nil {
				return err
			}
			clear(action)
			t.src.action(action, &pi)
			return nil
		}, nil
	}
}

var pricingBaselines = []envs.Baseline{
	{Name: "mean_values", Doc: "Prices a container at what it adds to a node in the mean of all states.",
		New: pricing(func(*PricingTask, *[lra.NumApps]float64) error { return nil })},
	{Name: "duals", Doc: "Prices by the duals of the linear program of what is left; with online arrivals, of what runs on average.",
		New: pricing(func(t *PricingTask, pi *[lra.NumApps]float64) error {
			p := t.present()
			if p.Batch = t.rest; t.heap != nil {
				for a := range p.Batch {
					p.Batch[a] = int(t.src.scale) / lra.NumApps
				}
			} else {
				p.Class = p.Class[t.node:]
			}
			if len(p.Class) == 0 || p.Batch.Total() == 0 {
				return nil
			}
			b, err := p.Bound()
			if err != nil {
				return err
			}
			*pi = b.Apps
			return nil
		})},
}
