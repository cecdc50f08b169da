package compliance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/server/wire"
)

// checkRollout compares rollouts with the same steps one at a time.
func (s *suite) checkRollout(t *testing.T) {
	const n, steps = 2, 2*limit + 2
	for _, mode := range []string{"NEXT_STEP", "SAME_STEP"} {
		p, made, ok := s.with(t, wire.CapRollout, n, mode)
		if !ok {
			p.refused(p.ask(message{"t": "rollout", "eid": 1, "name": "random", "steps": 1}), p.id, wire.IsReserved)
			return
		}
		eid := eidOf(made)
		roll := func(m message) message {
			m["t"], m["eid"] = "rollout", eid
			return p.ask(m)
		}
		p.refused(roll(message{"name": "random", "steps": 1}), p.id, wire.ResetNeeded)
		p.do(message{"t": "reset", "eid": eid, "seed": 5})
		p.refused(roll(message{"name": "random"}), p.id, wire.BadField)
		p.refused(roll(message{"name": "random", "steps": 0}), p.id, wire.BadField)
		p.refused(roll(message{"name": "random", "steps": -1}), p.id, wire.BadField)
		p.refused(roll(message{"name": "random", "steps": 1, "episodes": 1}), p.id, wire.BadField)
		p.refused(roll(message{"name": "random", "steps": uint64(1) << 63}), p.id, wire.TooLarge)
		p.refused(roll(message{"name": "no such baseline", "steps": 1}), p.id, wire.UnknownBaseline)
		p.refused(roll(message{"steps": 1}), p.id, wire.BadField)

		q, other, _ := s.with(t, wire.CapBaseline, n, mode)
		qid := eidOf(other)
		q.do(message{"t": "reset", "eid": qid, "seed": 5})
		names := baselines(made)
		for _, name := range names[:min(3, len(names))] { // some baselines are slow
			got := roll(message{"name": name, "seed": 3, "steps": steps, "arrays": true})
			if got["reason"] == string(wire.BaselineFails) {
				continue
			}
			p.want(got, "rollout.ok")
			if got["cut"] == true { // the baseline cannot act
				p.refused(p.ask(message{"t": "policy", "eid": eid, "name": name}), p.id, wire.BaselineFails)
				continue
			}
			s.sameSteps(t, got, q, qid, name, steps)
		}
		got := p.want(roll(message{"name": "random", "episodes": 2}), "rollout.ok")
		ended := make([]int, n)
		for _, i := range got["eps"].(message)["idx"].(array).data {
			ended[int(i)]++
		}
		if slices.Min(ended) != 2 || got["cut"] != nil || got["traj"] != nil {
			t.Errorf("a rollout of 2 episodes: %v", got)
		}
	}
	p, made, _ := s.with(t, wire.CapRollout, 1, "DISABLED")
	eid := eidOf(made)
	p.do(message{"t": "reset", "eid": eid, "seed": 5})
	got := p.do(message{"t": "rollout", "eid": eid, "name": "random", "steps": 10 * limit})
	if got["cut"] != true || got["ep"] == nil {
		t.Errorf("a rollout beyond an episode's end in DISABLED: %v, want it cut there", got)
	}
	p.refused(p.ask(message{"t": "rollout", "eid": eid, "name": "random", "steps": 1}), p.id, wire.ResetNeeded)
}

// sameSteps plays the steps of a rollout one at a time with another client.
func (s *suite) sameSteps(t *testing.T, got message, q *peer, qid uint64, name string, steps int) {
	t.Helper()
	if got["steps"] != float64(steps) || got["cut"] != nil {
		t.Fatalf("%s: a rollout of %v steps, cut %v; want %d", name, got["steps"], got["cut"], steps)
	}
	traj, _ := got["traj"].(message)
	eps := message{"at": []float64{}, "idx": []float64{}, "r": []float64{}, "l": []float64{}}
	var last message
	for step := range steps {
		ask := message{"t": "policy", "eid": qid, "name": name}
		if step == 0 {
			ask["seed"] = 3
		}
		advice := q.ask(ask)
		q.want(advice, "policy.ok")
		a := advice["a"].(array).data
		if want := row(traj["a"], step, steps); !slices.Equal(a, want) {
			t.Fatalf("%s: step %d of the rollout takes %v, policy %v", name, step, want, a)
		}
		last = q.do(message{"t": "step", "eid": qid, "policy": name})
		if r, want := last["r"].(array).data, row(traj["r"], step, steps); !slices.Equal(r, want) {
			t.Fatalf("%s: step %d of the rollout pays %v, step %v", name, step, want, r)
		}
		if ep, ok := last["ep"].(message); ok {
			for range ep["idx"].(array).data {
				eps["at"] = append(eps["at"].([]float64), float64(step+1))
			}
			for _, key := range []string{"idx", "r", "l"} {
				eps[key] = append(eps[key].([]float64), ep[key].(array).data...)
			}
		}
	}
	ends, _ := got["eps"].(message)
	for key, want := range eps {
		if a, _ := ends[key].(array); fmt.Sprint(a.data) != fmt.Sprint(want) {
			t.Errorf("%s: eps.%s of the rollout is %v, of the steps %v", name, key, a.data, want)
		}
	}
	for _, key := range []string{"steps", "cut", "run", "eps", "traj"} {
		delete(got, key)
	}
	got["t"] = "step.ok"
	sameBatch(t, got, last)
}
