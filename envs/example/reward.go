package example

// reward counts the pod and returns what it earns. bound says whether it was bound, first whether its node ran no pod
// before.
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
