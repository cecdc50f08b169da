package balance

import (
	"context"
	"strconv"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/deployments"
)

// Apply implements [envs.Task]: it binds the pod to the node. With a masked node the pod stays unplaced, at the cost of
// a pod that fits no node.
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	s, node := c.State(), int(action[0])
	if t.pod == noPod {
		return envs.Outcome{Terminated: true}, nil
	}
	var out envs.Outcome
	t.ops = t.ops[:0]
	placed := s.Fits(t.pod, int32(node))
	if placed {
		if t.original != nil {
			t.measure(s, noNode, false) // for the shares before the bind
			out.Reward = t.original.Score(t.scratch.cpu, node)
		}
		devices, _ := s.PickDevices(t.pod, int32(node)) // none for a pod that wants none
		t.ops = append(t.ops, cluster.Op{Kind: cluster.Bind, Pod: t.pod, Node: int32(node), Devices: devices},
			cluster.Op{Kind: cluster.SetUsage, Pod: t.pod, Resources: t.spec.Usage})
	} else {
		t.ops = append(t.ops, cluster.Op{Kind: cluster.Delete, Pod: t.pod})
	}
	if err := c.Apply(ctx, t.ops); err != nil {
		return out, err
	}
	t.countPods(s)
	if placed {
		t.noteBound(s, t.spec, t.pod, s.Now)
	}
	m := t.measure(s, noNode, false)
	cost := t.objective.cost(m)
	t.stats.add(&m, cost, placed)
	failed, done, err := t.next(ctx, c)
	if t.original == nil {
		out.Reward = -cost / t.objective.unit
	}
	if !placed {
		failed++
	}
	out.Reward -= failurePenalty * float64(failed)
	out.Terminated = done
	return out, err
}

// next advances to the next pod that fits some node. It returns how many pods failed on the way, because they fit none,
// and whether the episode has ended.
func (t *Task) next(ctx context.Context, c cluster.Cluster) (failed int, done bool, err error) {
	for {
		if done, err = t.between(ctx, c); done || err != nil {
			t.pod = noPod
			return failed, done, err
		}
		s := c.State()
		t.pod = int32(len(s.Pods))
		if t.spec.Replica == 0 || t.phasePods == 0 {
			t.first = t.pod
		}
		t.phasePods++
		t.offered.MilliCPU += t.spec.Requests.MilliCPU
		t.offered.MemoryBytes += t.spec.Requests.MemoryBytes
		t.ops = append(t.ops[:0], t.addPod(s, t.spec, t.spec.Lifetime))
		if err := c.Apply(ctx, t.ops); err != nil {
			return failed, false, err
		}
		t.countPods(s)
		if t.fitsSome(s) {
			t.updateForecast(s)
			return failed, false, nil
		}
		t.ops = append(t.ops[:0], cluster.Op{Kind: cluster.Delete, Pod: t.pod})
		if err := c.Apply(ctx, t.ops); err != nil {
			return failed, false, err
		}
		failed++
		t.stats.failed++
	}
}

// between advances from the current pod to the next one in the workload. At the end of a deployment time passes, and at
// the end of a phase the cluster is emptied. After the last phase, the last deployment of a file, or at the end of the
// clock, done is true.
func (t *Task) between(ctx context.Context, c cluster.Cluster) (done bool, err error) {
	last := t.spec
	t.cur++
	spec, more := t.in.Pod(t.cur)
	more = more && seconds(t.opts.Interval)+resetPause <= cluster.MaxTime-c.State().Now // or else the clock ends
	if t.cur > 0 {
		deploymentEnds := last.Replica >= last.Replicas-1
		phaseEnds := !more || t.phaseEnds(deploymentEnds)
		if deploymentEnds || phaseEnds {
			t.stats.endDeployment(t)
		}
		if phaseEnds { // maybe after pods that fit no node, without a decision
			m := t.measure(c.State(), noNode, false)
			t.stats.endPhase(&m)
		}
		switch {
		case phaseEnds && (t.phase == t.opts.Resets-1 || !more):
			return true, nil
		case phaseEnds:
			t.phase, t.phasePods, t.offered = t.phase+1, 0, cluster.Resources{}
			if err := t.empty(ctx, c); err != nil {
				return false, err
			}
		case t.src.Recorded != nil:
			if err := t.until(ctx, c, spec); err != nil {
				return false, err
			}
		case deploymentEnds:
			if err := c.Advance(ctx, seconds(t.opts.Interval)); err != nil {
				return false, err
			}
		}
	}
	t.spec = spec
	return false, nil
}

// phaseEnds reports whether the cluster counts as filled: after a given number of pods, or at the end of the deployment
// with which the requests of this phase, placed or not, reach a load. So all policies see the same pods. If pods have
// lifetimes, it is always false.
func (t *Task) phaseEnds(deploymentEnds bool) bool {
	o := t.opts
	switch {
	case len(o.ResetPods) > 0:
		return t.phasePods == o.ResetPods[t.phase]
	case o.Lifetime > 0 || o.Trace != "" || !deploymentEnds:
		return false
	}
	cpu, memory := t.loads(t.offered) // quotients, since 0.55*220 is above 121
	return cpu >= o.CPULoad || memory >= o.MemoryLoad || float64(t.phasePods)/float64(maxPods*o.Nodes) >= o.PodLoad
}

// empty deletes every running pod, as the source does between its resets.
func (t *Task) empty(ctx context.Context, c cluster.Cluster) error {
	t.ops = t.ops[:0]
	s := c.State()
	for i := range s.Pods {
		if s.Pods[i].Phase == cluster.Running {
			t.ops = append(t.ops, cluster.Op{Kind: cluster.Delete, Pod: int32(i)})
		}
	}
	if err := c.Apply(ctx, t.ops); err != nil {
		return err
	}
	return c.Advance(ctx, resetPause)
}

// fitsSome reports whether the current pod fits a node.
func (t *Task) fitsSome(s *cluster.State) bool {
	for i := range s.Nodes {
		if s.Fits(t.pod, int32(i)) {
			return true
		}
	}
	return false
}

// addPod returns the op that adds a pod, which runs for the lifetime.
func (t *Task) addPod(s *cluster.State, p *deployments.Pod, lifetime time.Duration) cluster.Op {
	op := cluster.Op{Kind: cluster.AddPod, Meta: t.metaOf(s, p.Index), Resources: p.Requests, Duration: lifetime}
	if p.Recorded != nil {
		op.GPUs, op.MilliGPU = uint8(p.Recorded.GPUs), p.Recorded.MilliGPU
	}
	return op
}

// metaOf returns the metadata of the pods of a deployment.
func (t *Task) metaOf(s *cluster.State, deployment int32) int32 {
	for d := len(t.podMeta); d <= int(deployment); d++ {
		m := cluster.Meta{Name: "deployment-" + strconv.Itoa(d)}
		switch w := t.src.Recorded; {
		case t.src.File != nil:
			m.Name = t.src.File[d].Name
		case w != nil:
			m.NodeSelector = w.NodeSets[w.Groups[d].NodeSet].NodeSelector
		}
		t.podMeta = append(t.podMeta, s.Intern(m))
	}
	return t.podMeta[deployment]
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
