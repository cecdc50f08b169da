package fused

// growNodes makes room for the nodes of that many rows.
func (n *Network) growNodes(rows int) {
	n.global = aligned(rows * (n.nodeInputs - n.spec.Nodes.Features))
	for _, t := range n.spec.Towers {
		if t.Layer != "" {
			n.nodeRows = aligned(rows * n.spec.Nodes.N * n.nodeInputs)
		}
	}
	if n.graphs != nil {
		n.graphs.grow(rows)
	}
}

// gather copies the globals of a tile and, for layers of messages, joins them to the nodes.
func (n *Network) gather(lo, rows int) {
	nodes, inputs := n.spec.Nodes, n.spec.Inputs
	width := n.nodeInputs - nodes.Features
	for r := lo; r < lo+rows; r++ {
		obs, global := n.obs[r*inputs:(r+1)*inputs], n.global[r*width:(r+1)*width]
		at := 0
		for _, g := range n.globals {
			at += copy(global[at:], obs[g.Start:g.End])
		}
		if len(n.nodeRows) == 0 {
			continue
		}
		for i := range nodes.N {
			x := n.nodeRows[(r*nodes.N+i)*n.nodeInputs:]
			copy(x, obs[nodes.Offset+i*nodes.Features:][:nodes.Features])
			copy(x[nodes.Features:], global)
		}
	}
}

// join sets the rows of a tower whose layers of messages read nodes with an LSTM beside them.
func (n *Network) join(tw *tower, lo, rows int) {
	nodes, width := n.spec.Nodes.N, n.nodeInputs
	l := &n.lstms[tw.lstm]
	beside := l.output()[lo*l.out:]
	for r := range rows {
		for i := (lo + r) * nodes; i < (lo+r+1)*nodes; i++ {
			x := tw.rows[i*tw.in : (i+1)*tw.in]
			copy(x, n.nodeRows[i*width:(i+1)*width])
			copy(x[width:], beside[r*l.out:])
		}
	}
}

// sendBeside carries the gradient of what a node tower reads to the LSTM beside the nodes.
func (w *worker) sendBeside(tw *tower, d []float32) {
	n := w.net
	nodes, width := n.spec.Nodes.N, n.nodeInputs
	l := &n.lstms[tw.lstm]
	for r := range w.rows {
		w.k.sumRows(l.dOutput[(w.lo+r)*l.out:(w.lo+r+1)*l.out], d[r*nodes*tw.in+width:], nodes, tw.in)
	}
}

// pool computes what a tower reads of a node tower: the mean, then the maximum.
func (w *worker) pool(tw *tower, lo, rows int) {
	n := w.net
	from := &n.towers[tw.from]
	width, nodes := from.width(), n.spec.Nodes.N
	top := from.top().y
	for r := lo; r < lo+rows; r++ {
		x, pooled := top[r*nodes*width:(r+1)*nodes*width], tw.pooled[r*tw.in:(r+1)*tw.in]
		if tw.mean {
			n.meanRows(pooled[:width], x)
			pooled = pooled[width:]
		}
		if tw.max {
			n.k.maxRows(pooled, tw.argmax[r*width:(r+1)*width], x)
		}
	}
}

// meanRows sets mean to the mean of the rows of x, which are as long as mean and one for each node.
func (n *Network) meanRows(mean, x []float32) {
	clear(mean)
	nodes := n.spec.Nodes.N
	n.k.sumRows(mean, x, nodes, len(mean))
	scale := 1 / float32(nodes)
	for j := range mean {
		mean[j] *= scale
	}
}

// unpool adds the gradient of what a tower reads to that of the node tower.
func (w *worker) unpool(tw *tower, d []float32) {
	n := w.net
	width, nodes := n.towers[tw.from].width(), n.spec.Nodes.N
	for r := range w.rows {
		d, top := d[r*tw.in:(r+1)*tw.in], w.tops[tw.from][r*nodes*width:(r+1)*nodes*width]
		if tw.mean {
			scale := 1 / float32(nodes)
			for i := range nodes {
				n.k.addScaled(top[i*width:(i+1)*width], d[:width], scale)
			}
			d = d[width:]
		}
		if tw.max {
			for j, i := range tw.argmax[(w.lo+r)*width : (w.lo+r+1)*width] {
				top[int(i)*width+j] += d[j]
			}
		}
	}
}
