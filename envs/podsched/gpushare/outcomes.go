package gpushare

import (
	"math/bits"
)

// Outcomes caches, for each class of pods, the outcome of placing one on each node, until the node changes.
type Outcomes struct {
	b       *Inventory
	devices func(b *Inventory, c *Class, i int32) uint64 // nil selects FGD's
	rows    []outcomeRow                                 // by class
	kinds   [][]Outcome                                  // by kind, by node: the part that does not depend on memory and models
}

// NewOutcomes returns the outcomes of pods in b. A pod that shares a device takes the one that devices returns; nil
// selects FGD's.
func NewOutcomes(b *Inventory, devices func(b *Inventory, c *Class, i int32) uint64) Outcomes {
	return Outcomes{b: b, devices: devices}
}

// DeviceRule returns the function devices of NewOutcomes by name: best takes the device with the least free that fits,
// and first the first one that fits. It returns nil for any other name.
func DeviceRule(name string) func(b *Inventory, c *Class, i int32) uint64 {
	switch name {
	case "best":
		return (*Inventory).Tightest
	case "first":
		return func(b *Inventory, c *Class, i int32) uint64 { return FirstFit(b.DevicesOf(i), c) }
	}
	return nil
}

// Of returns outcomes for b with the same choice of devices and an empty cache.
func (p *Outcomes) Of(b *Inventory) Outcomes { return NewOutcomes(b, p.devices) }

type outcomeRow struct {
	clock uint64 // of the inventory when the entries were computed
	nodes []Outcome
}

// Outcome is the outcome of placing a pod of some class on some node.
type Outcome struct {
	version uint64  // of the node when the rest was computed
	Devices uint64  // that it would take
	Gain    float32 // sigmoid of the fragmentation that it removes, in GPUs
	Left    float32 // of the device that it shares
	FGD     float32 // score of FGD over 100
	BestFit float32 // likewise
	Fits    bool
}

// Row returns the outcome of placing a pod of class c on each node.
func (p *Outcomes) Row(c *Class) []Outcome {
	n := len(p.b.Nodes)
	for int(c.ID) >= len(p.rows) {
		p.rows = append(p.rows, outcomeRow{})
	}
	for int(c.Kind) >= len(p.kinds) {
		p.kinds = append(p.kinds, nil)
	}
	r := &p.rows[c.ID]
	if len(r.nodes) < n {
		r.nodes = make([]Outcome, n)
	}
	if len(p.kinds[c.Kind]) < n {
		p.kinds[c.Kind] = make([]Outcome, n)
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
			*e = Outcome{version: version}
		default:
			if kind[i].version != version {
				p.update(&kind[i], c, int32(i))
			}
			*e = kind[i]
		}
	}
	return row
}

// update computes the outcome on a node that a pod of class c fits.
func (p *Outcomes) update(r *Outcome, c *Class, i int32) {
	b := p.b
	*r = Outcome{version: b.Nodes[i].Version, Fits: true}
	score, devices, after := b.Descend(c, i)
	r.Devices, r.FGD = devices, float32(score)/100
	if p.devices != nil && c.Sharing() {
		r.Devices = p.devices(b, c, i)
		after = b.After(c, i, r.Devices)
	}
	r.Gain = float32(Sigmoid(b.Frag.Amount(b.Nodes[i].Frag-after) / WholeGPU))
	if c.Sharing() {
		r.Left = float32(b.DevicesOf(i)[bits.TrailingZeros64(r.Devices)]-c.MilliGPU) / WholeGPU
	}
	fit, _ := BestFit(b, c, i)
	r.BestFit = float32(min(max(fit, 0), 100)) / 100
}
