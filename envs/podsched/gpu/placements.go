package gpu

import "math/bits"

// placements remembers, for each class of pods, what placing one on each node would do, until
// the node changes.
type placements struct {
	b       *board
	devices func(b *board, c *class, i int32) uint64 // nil: FGD's
	rows    []placementRow                           // by class
	kinds   [][]placement                            // by kind, by node: what does not depend on memory and models
}

type placementRow struct {
	clock uint64 // of the board when the entries were true
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
func (p *placements) row(c *class) []placement {
	n := len(p.b.nodes)
	for int(c.id) >= len(p.rows) {
		p.rows = append(p.rows, placementRow{})
	}
	for int(c.kind) >= len(p.kinds) {
		p.kinds = append(p.kinds, nil)
	}
	r := &p.rows[c.id]
	if len(r.nodes) < n {
		r.nodes = make([]placement, n)
	}
	if len(p.kinds[c.kind]) < n {
		p.kinds[c.kind] = make([]placement, n)
	}
	row := r.nodes[:n]
	if r.clock == p.b.clock {
		return row
	}
	r.clock = p.b.clock
	kind := p.kinds[c.kind][:n]
	for i := range row {
		version := p.b.nodes[i].version
		switch e := &row[i]; {
		case e.version == version:
		case !p.b.fits(c, int32(i)):
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
func (p *placements) update(r *placement, c *class, i int32) {
	b := p.b
	*r = placement{version: b.nodes[i].version, fits: true}
	score, devices, after := b.descend(c, i)
	r.devices, r.fgd = devices, float32(score)/100
	if p.devices != nil && c.sharing() {
		r.devices = p.devices(b, c, i)
		after = b.after(c, i, r.devices)
	}
	r.gain = float32(sigmoid(b.frag.amount(b.nodes[i].frag-after) / wholeGPU))
	if c.sharing() {
		r.left = float32(b.devicesOf(i)[bits.TrailingZeros64(r.devices)]-c.MilliGPU) / wholeGPU
	}
	fit, _ := bestFit(b, c, i)
	r.bestFit = float32(min(max(fit, 0), 100)) / 100
}

// deviceRule returns the rule of the option devices.
func deviceRule(name string) func(b *board, c *class, i int32) uint64 {
	switch name {
	case DevicesBest:
		return (*board).tightest
	case DevicesFirst:
		return func(b *board, c *class, i int32) uint64 { return firstFit(b.devicesOf(i), c) }
	}
	return nil
}
