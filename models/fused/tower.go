package fused

// A tower is a stack and the heads that read it. Its items are observations, or the nodes of
// observations. Its first module reads the observation, an LSTM or an earlier tower.
type tower struct {
	stack
	heads []head // in the order of the outputs
	index int    // in Network.towers
	each  int    // items of an observation

	learns  bool // its results need a gradient
	skipped bool // by Network.Skip
	readers int  // towers that pool this one and propagate a gradient to it
}

// top returns the last step.
func (tw *tower) top() *step { return &tw.stack[len(tw.stack)-1] }

// width returns the width of the results.
func (tw *tower) width() int { return tw.top().width }

func (tw *tower) forward(w *worker) {
	w.at, w.items = (w.lo-w.shift)*tw.each, w.rows*tw.each
	x := tw.stack.forward(w)
	for _, h := range tw.heads {
		h.forward(w, x)
	}
}

func (tw *tower) backward(w *worker) {
	w.at, w.items = (w.lo-w.shift)*tw.each, w.rows*tw.each
	x, d := tw.top().results(w), w.d
	var sum []float32 // sum of the gradients of the results so far
	if tw.readers > 0 {
		d = w.tops[tw.index] // pooling towers have added theirs
		sum = d
	}
	for _, h := range tw.heads {
		if h.backward(w, x, d, sum) {
			sum = d
		}
	}
	if !tw.learns {
		return
	}
	if sum == nil { // only detached towers read the results
		clear(d[:w.items*tw.width()])
	}
	tw.stack.backward(w, d)
}
