package example

// reward counts a pod that was bound, or not, to a node that ran none before, and returns what it earns.
func (t *Task) reward(bound, first bool) float64 {
	switch {
	case !bound:
		t.pending++
		return -1
	case first:
		t.used++
		return -1 / float64(t.opts.Nodes)
	}
	return 0
}
