package gpu

import (
	"math/bits"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// placements remembers, for each class of pods, what placing one on each node would do, until
// the node changes.
type placements struct {
	b       *gpushare.Inventory
	devices func(b *gpushare.Inventory, c *gpushare.Class, i int32) uint64 // nil: FGD's
	rows    []placementRow                                                 // by class
	kinds   [][]placement                                                  // by kind, by node: what does not depend on memory and models
}

type placementRow struct {
	clock uint64 // of the inventory when the entries were true
	nodes []placement
}

// placement is a pod of some class on some node.
type placement struct {
	version uint64 // of the node when the rest was true
	devices uint64 // that it would take
	gain    float32
	left    float32 // of the device that it shares
	fgd     float32 // score of FGD over 100
	bestFit float32
	fits    bool
}

// row returns what placing a pod of class c would do on each node.
func (p *placements) row(c *gpushare.Class) []placement {
	n := len(p.b.Nodes)
	for int(c.ID) >= len(p.rows) {
		p.rows = append(p.rows, placementRow{})
	}
	for int(c.Kind) >= len(p.kinds) {
		p.kinds = append(p.kinds, nil)
	}
	r := &p.rows[c.ID]
	if len(r.nodes) < n {
		r.nodes = make([]placement, n)
	}
	if len(p.kinds[c.Kind]) < n {
		p.kinds[c.Kind] = make([]placement, n)
	}
	row := r.nodes[:n]
	if r.clock == p.b.Clock {
		return row
	}
	r.clock = p.b.Clock
	kind := p.kinds[c.Kind][:n]
	for i := range row {
		version := p.b.Nodes[i].Version
		switch e := &row[i]; {
		case e.version == version:
		case !p.b.Fits(c, int32(i)):
			*e = placement{version: version}
		default:
			if kind[i].version != version {
				p.update(&kind[i], c, int32(i))
			}
			*e = kind[i]
		}
	}
	return row
}

// update looks at a node where a pod of class c fits.
func (p *placements) update(r *placement, c *gpushare.Class, i int32) {
	b := p.b
	*r = placement{version: b.Nodes[i].Version, fits: true}
	score, devices, after := b.Descend(c, i)
	r.devices, r.fgd = devices, float32(score)/100
	if p.devices != nil && c.Sharing() {
		r.devices = p.devices(b, c, i)
		after = b.After(c, i, r.devices)
	}
	r.gain = float32(gpushare.Sigmoid(b.Frag.Amount(b.Nodes[i].Frag-after) / gpushare.WholeGPU))
	if c.Sharing() {
		r.left = float32(b.DevicesOf(i)[bits.TrailingZeros64(r.devices)]-c.MilliGPU) / gpushare.WholeGPU
	}
	fit, _ := gpushare.BestFit(b, c, i)
	r.bestFit = float32(min(max(fit, 0), 100)) / 100
}

// deviceRule returns the rule of the option devices.
func deviceRule(name string) func(b *gpushare.Inventory, c *gpushare.Class, i int32) uint64 {
	switch name {
	case DevicesBest:
		return (*gpushare.Inventory).Tightest
	case DevicesFirst:
		return func(b *gpushare.Inventory, c *gpushare.Class, i int32) uint64 {
			return gpushare.FirstFit(b.DevicesOf(i), c)
		}
	}
	return nil
}
