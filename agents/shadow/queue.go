package shadow

import (
	"cmp"
	"context"
	"slices"
)

// before compares pending pods as kube-scheduler's plugin PrioritySort does; ties keep the order of the recording.
func (w *world) before(a, b int32) int {
	return cmp.Or(cmp.Compare(w.template(b).Priority, w.template(a).Priority), cmp.Compare(w.pods[a].since, w.pods[b].since), cmp.Compare(a, b))
}

func (w *world) enqueue(p int32) {
	at, _ := slices.BinarySearchFunc(w.queue, p, w.before)
	w.queue = slices.Insert(w.queue, at, p)
	w.fresh = append(w.fresh, p)
	w.dependent += w.dependsOnPods(p)
	w.meter.dirty = true
}

func (w *world) dequeue(p int32) {
	at := slices.Index(w.queue, p)
	w.queue = slices.Delete(w.queue, at, at+1)
	w.dependent -= w.dependsOnPods(p)
	w.meter.dirty = true
}

// schedule tries the pending pods, repeatedly while starts may make nodes feasible for others.
func (w *world) schedule(ctx context.Context, c Chooser) error {
	for {
		if err := w.tryAll(ctx, c); err != nil || w.freed == w.lastPass {
			return err
		}
	}
}

// tryAll tries each pending pod. If nothing has made room since the last pass, it tries only pods
// that have joined the queue since.
func (w *world) tryAll(ctx context.Context, c Chooser) error {
	tried := w.fresh
	if w.freed != w.lastPass {
		tried = w.queue
	}
	tried = slices.SortedFunc(slices.Values(tried), w.before)
	w.lastPass, w.fresh = w.freed, w.fresh[:0]
	for _, p := range tried {
		q := &w.pods[p]
		plain := len(q.bound) == 0 && w.dependsOnPods(p) == 0
		if q.phase != waiting || plain && w.unschedulable[q.template] == w.freed {
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
					w.unschedulable[q.template] = w.freed
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
