package shadow

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// replayRecorded replays the recorded cluster. Before each bind it asks the policies of poll for their choices.
func (w *world) replayRecorded(ctx context.Context, poll *poll) error {
	for i := range w.Events {
		e := &w.Events[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		w.meter.paused = e.Kind == clustertrace.Gap
		w.advance(e.At)
		if err := w.applyRecorded(ctx, e, poll); err != nil {
			return err
		}
	}
	w.finish()
	return nil
}

// applyRecorded applies an event as recorded.
func (w *world) applyRecorded(ctx context.Context, e *clustertrace.Event, poll *poll) error {
	fixed := int(e.Pod) < len(w.pods) && w.history.pods[e.Pod].fixed
	switch e.Kind {
	case clustertrace.AddPod:
		if !fixed {
			return w.arrive(e.Pod)
		}
	case clustertrace.BindPod:
		if !fixed {
			if err := w.vote(ctx, e, poll); err != nil {
				return err
			}
		}
		return w.start(e.Pod, e.Node, w.history.pods[e.Pod].devices)
	case clustertrace.UpdatePod:
		return w.update(e.Pod, e.Template, true)
	case clustertrace.FinishPod, clustertrace.DeletePod:
		if e.Preempted && w.pods[e.Pod].phase == running {
			w.meter.preempted(w.now)
		}
		return w.end(e.Pod)
	case clustertrace.RemoveNode:
		return w.dropNode(e.Node)
	default:
		return w.applyCommon(e)
	}
	return nil
}

// applyCommon applies an event that is the same in all worlds.
func (w *world) applyCommon(e *clustertrace.Event) error {
	switch e.Kind {
	case clustertrace.AddNode, clustertrace.UpdateNode:
		return w.setNode(e.Node, e.Info)
	case clustertrace.AddClaim:
		w.claims[e.Claim.Namespace+"/"+e.Claim.Name] = e.Claim
	case clustertrace.AddBudget:
		w.budgets[e.Budget.Namespace+"/"+e.Budget.Name] = w.newBudget(e.Budget)
	}
	return nil
}

// update gives a pod another template: it may be resized, or lose its last gate.
func (w *world) update(p, template int32, force bool) error {
	done, err := w.resize(p, template, force)
	if err != nil {
		return err
	}
	if !done {
		w.deferred[p] = template
		w.meter.deferred++
	} else {
		delete(w.deferred, p)
	}
	if w.pods[p].phase == gated && len(w.template(p).Gates) == 0 {
		return w.wait(p)
	}
	return nil
}

// poll collects the policies' choices for the decisions of the recorded scheduler.
type poll struct {
	voters  []*voter
	decided func(Decision) error // may be nil
	differ  disagreements
	skipped int // decisions without a poll
}

// voter is a policy in a poll.
type voter struct {
	name    string
	chooser Chooser
	agreed  ratio
	asked   int
}

// vote asks the policies for their choices before a pod is bound as recorded. It skips pods that fit no node by the
// constraints modelled here.
func (w *world) vote(ctx context.Context, e *clustertrace.Event, poll *poll) error {
	if w.pods[e.Pod].phase != waiting || w.now < w.meter.from {
		return nil
	}
	one := Decision{At: w.Header.Start.Add(w.now), Pod: w.history.pods[e.Pod].name, Node: w.nodes[e.Node].name()}
	d, ok := w.decision(e.Pod)
	if !ok {
		poll.skipped++
		return poll.report(one)
	}
	var choices []DisagreeingChoice
	for _, v := range poll.voters {
		choice, err := w.choose(ctx, v.chooser, e.Pod, d)
		if err != nil {
			return err
		}
		b := min(int((w.now-w.meter.from)/w.meter.block), len(v.agreed.den)-1)
		v.asked++
		v.agreed.den[b]++
		n := w.order[choice.Node]
		if n == e.Node {
			v.agreed.num[b]++
		} else {
			choices = append(choices, DisagreeingChoice{v.name, w.nodes[n].name(), w.costs(e.Pod, n, choice.Devices)})
		}
		one.Choices = append(one.Choices, w.nodes[n].name())
	}
	if len(choices) > 0 {
		poll.differ.add(Disagreement{one.At, one.Pod, one.Node, w.costs(e.Pod, e.Node, w.history.pods[e.Pod].devices), choices})
	}
	return poll.report(one)
}

func (p *poll) report(d Decision) error {
	if p.decided == nil {
		return nil
	}
	return p.decided(d)
}

// replayPolicy replays the recording with the policy's placements.
func (w *world) replayPolicy(ctx context.Context, c Chooser) error {
	for i := 0; i < len(w.Events); {
		t := w.Events[i].At
		w.meter.paused = w.Events[i].Kind == clustertrace.Gap
		for len(w.ends) > 0 && w.ends[0].At < t {
			if err := w.settle(ctx, c, w.ends[0].At); err != nil {
				return err
			}
		}
		w.advance(t)
		if err := w.endDue(t); err != nil {
			return err
		}
		for ; i < len(w.Events) && w.Events[i].At == t; i++ {
			if err := w.applyPolicy(&w.Events[i]); err != nil {
				return err
			}
		}
		if err := w.settle(ctx, c, t); err != nil {
			return err
		}
	}
	w.finish()
	return nil
}

// settle ends the pods that are due by t, and schedules into the room that they free.
func (w *world) settle(ctx context.Context, c Chooser, t time.Duration) error {
	w.advance(t)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.endDue(t); err != nil {
			return err
		}
		if err := w.retryResizes(); err != nil {
			return err
		}
		if err := w.schedule(ctx, c); err != nil {
			return err
		}
		if len(w.ends) == 0 || w.ends[0].At > t { // pods of zero lifetime end at once
			return nil
		}
	}
}

// endDue ends the pods that are due by t.
func (w *world) endDue(t time.Duration) error {
	for len(w.ends) > 0 && w.ends[0].At <= t {
		e := w.ends.Pop()
		if q := &w.pods[e.Pod]; q.phase != running || q.ends != e.At {
			continue // it was displaced meanwhile
		}
		if err := w.end(e.Pod); err != nil {
			return err
		}
	}
	return nil
}

// retryResizes retries the deferred resizes.
func (w *world) retryResizes() error {
	if len(w.deferred) == 0 || w.freed == w.lastPass {
		return nil
	}
	for _, p := range slices.Sorted(maps.Keys(w.deferred)) {
		done, err := w.resize(p, w.deferred[p], false)
		if err != nil {
			return err
		}
		if done {
			delete(w.deferred, p)
		}
	}
	return nil
}

// applyPolicy applies an event to the policy's cluster.
func (w *world) applyPolicy(e *clustertrace.Event) error {
	if e.Kind == clustertrace.RemoveNode {
		return w.removeNode(e.Node)
	}
	switch e.Kind {
	case clustertrace.AddPod, clustertrace.BindPod, clustertrace.UpdatePod, clustertrace.FinishPod, clustertrace.DeletePod:
	default:
		return w.applyCommon(e)
	}
	p := &w.history.pods[e.Pod]
	switch {
	case p.fixed:
		return w.applyRecorded(context.Background(), e, nil)
	case e.Kind == clustertrace.AddPod:
		return w.arrive(e.Pod)
	case e.Kind == clustertrace.UpdatePod:
		return w.update(e.Pod, e.Template, false)
	case e.Kind != clustertrace.BindPod && p.bound == never:
		return w.end(e.Pod) // deleted before it ran
	}
	return nil
}

// removeNode removes a node. Pods that also ran on it in the recording end; the recording contains their replacements.
// Others are pending again.
func (w *world) removeNode(n int32) error {
	var displaced []int32
	for p := range w.pods[:w.arrived] {
		q, was := &w.pods[p], &w.history.pods[p]
		if q.phase != running || q.node != n || was.fixed {
			continue
		}
		if was.node == n && was.ended >= w.now {
			if err := w.end(int32(p)); err != nil {
				return err
			}
			continue
		}
		if err := w.evict(int32(p)); err != nil {
			return err
		}
		displaced = append(displaced, int32(p))
	}
	if err := w.dropNode(n); err != nil {
		return err
	}
	for _, p := range displaced {
		if err := w.wait(p); err != nil {
			return err
		}
	}
	w.meter.displaced += len(displaced)
	return nil
}

// finish adds the waiting times of the pods that are pending at the end of the recording.
func (w *world) finish() {
	for _, p := range w.queue {
		w.meter.waited(&w.pods[p], w.now)
	}
}

// planEnd sets the end of a pod that has just started, after its recorded or remaining lifetime. A pod without a
// recorded lifetime has no planned end.
func (w *world) planEnd(p int32) {
	q := &w.pods[p]
	lifetime := w.history.pods[p].lifetime()
	if q.remaining > 0 {
		lifetime = q.remaining
	}
	if lifetime == never {
		return
	}
	q.ends = q.started + lifetime
	w.ends.Push(cluster.Departure{At: q.ends, Pod: p})
}
