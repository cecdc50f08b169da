package shadow

import (
	"cmp"
	"context"
	"slices"
)

// before orders waiting pods as kube-scheduler's plugin PrioritySort does; of equal ones the first recorded comes first.
func (w *world) before(a, b int32) int {
	return cmp.Or(cmp.Compare(w.of(b).Priority, w.of(a).Priority), cmp.Compare(w.pods[a].since, w.pods[b].since), cmp.Compare(a, b))
}

func (w *world) enqueue(p int32) {
	at, _ := slices.BinarySearchFunc(w.queue, p, w.before)
	w.queue = slices.Insert(w.queue, at, p)
	w.fresh = append(w.fresh, p)
	w.hopeful += w.hopes(p)
	w.meter.dirty = true
}

func (w *world) dequeue(p int32) {
	at := slices.Index(w.queue, p)
	w.queue = slices.Delete(w.queue, at, at+1)
	w.hopeful -= w.hopes(p)
	w.meter.dirty = true
}

// schedule tries the pods that wait, again and again while a start opens nodes to others.
func (w *world) schedule(ctx context.Context, c Chooser) error {
	for {
		if err := w.tryAll(ctx, c); err != nil || w.freed == w.passed {
			return err
		}
	}
}

// tryAll tries each waiting pod. Where nothing has made room since the last time, only those that
// have come since then can fit.
func (w *world) tryAll(ctx context.Context, c Chooser) error {
	tried := w.fresh
	if w.freed != w.passed {
		tried = w.queue
	}
	tried = slices.SortedFunc(slices.Values(tried), w.before)
	w.passed, w.fresh = w.freed, w.fresh[:0]
	for _, p := range tried {
		q := &w.pods[p]
		plain := len(q.bound) == 0 && w.hopes(p) == 0
		if q.phase != waiting || plain && w.full[q.template] == w.freed {
			continue
		}
		d, ok := w.decision(p)
		if !ok {
			evicted, err := w.preempt(p)
			if err != nil {
				return err
			}
			if !evicted {
				if plain {
					w.full[q.template] = w.freed
				}
				continue
			}
			d, ok = w.decision(p)
			if err := w.mustFit(p, ok); err != nil {
				return err
			}
		}
		choice, err := w.choose(ctx, c, p, d)
		if err != nil {
			return err
		}
		if err := w.start(p, w.order[choice.Node], choice.Devices); err != nil {
			return err
		}
		w.planEnd(p)
	}
	return nil
}
