package world

import "slices"

// Clone returns an independent Episode in the state of e.
func (e *Episode) Clone() *Episode {
	c := NewEpisode(e.src)
	own, rng, perm := c.own, c.rng, c.perm
	*c = *e
	*own = *e.own
	c.own, c.rng, c.perm = own, rng, perm
	c.x, c.forbid, c.queue = slices.Clone(e.x), slices.Clone(e.forbid), slices.Clone(e.queue)
	c.rows, c.mask = slices.Clone(e.rows), slices.Clone(e.mask)
	if e.running != nil {
		c.running = new(slices.Clone(*e.running))
	}
	c.ops = nil
	return c
}
