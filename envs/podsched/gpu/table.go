package gpu

// placements remembers, for each class of pods, what placing one on each node would do, until
// the node changes.
type placements struct {
	b       *board
	devices func(b *board, c *class, i int32) uint64 // nil: FGD's
	rows    [][]placement                            // by class, by node
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
		p.rows = append(p.rows, nil)
	}
	if len(p.rows[c.id]) < n {
		p.rows[c.id] = make([]placement, n)
	}
	row := p.rows[c.id][:n]
	for i := range row {
		if r := &row[i]; r.version != p.b.nodes[i].version {
			p.update(r, c, int32(i))
		}
	}
	return row
}

func (p *placements) update(r *placement, c *class, i int32) {
	b := p.b
	*r = placement{version: b.nodes[i].version, fits: b.fits(c, i)}
	if !r.fits {
		return
	}
	score, devices, after := b.descend(c, i)
	r.devices, r.fgd = devices, float32(score)/100
	if p.devices != nil && c.sharing() {
		r.devices = p.devices(b, c, i)
		after = b.after(c, i, r.devices)
	}
	r.gain = float32(sigmoid(b.frag.amount(b.nodes[i].frag-after) / wholeGPU))
	if c.sharing() {
		r.left = float32(b.devicesOf(i)[lowest(r.devices)]-c.MilliGPU) / wholeGPU
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
