package dqn

import (
	"fmt"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Record fills the replay buffer with recorded transitions before the first Act, and returns how
// many it took. Every environment gets the same number, so that fewer than NumEnvs are left over.
// Recorded transitions do not count as timesteps or towards LearningStarts, and newer ones replace
// them when the buffer is full. It is an error if they do not fit into the buffer.
func (l *Learner) Record(t replay.Transitions) (int, error) {
	n, size, actions := len(l.actions), l.env.Obs.Size(), l.head.Actions
	if err := t.Check(Algo, size, space.Discrete{N: actions}); err != nil {
		return 0, err
	}
	if err := t.CheckNext(Algo, actions); err != nil {
		return 0, err
	}
	if err := agents.CheckRewards(Algo, t.Reward, 0); err != nil {
		return 0, fmt.Errorf("recorded transitions: %w", err)
	}
	steps := t.Len() / n
	if steps == 0 || t.Len() > l.cfg.BufferSize {
		return 0, fmt.Errorf("dqn: %d recorded transitions, want at least n_envs, %d, and at most buffer_size, %d", t.Len(), n, l.cfg.BufferSize)
	}
	for i := range n {
		if need, room := t.Slots(i*steps, (i+1)*steps, size), l.buf.Room(); need > room {
			return 0, fmt.Errorf("dqn: %d recorded transitions for each environment take the room of %d, since truncated ones count twice, want at most buffer_size / n_envs, %d", steps, need, room)
		}
	}
	next := &envs.Batch{
		Obs: make([]float32, n*size), FinalObs: make([]float32, n*size), Mask: make([]bool, n*actions), FinalMask: make([]bool, n*actions),
		Reward: make([]float64, n), Terminated: make([]bool, n), Truncated: make([]bool, n),
	}
	for step := range steps {
		for i := range n { // environment i gets the i-th part of the recording
			k := i*steps + step
			copy(l.obs[i*size:(i+1)*size], t.Obs[k*size:])
			replay.CopyMask(l.mask[i*actions:(i+1)*actions], t.Mask, k)
			l.actions[i] = t.Action[k]
			copy(next.Obs[i*size:(i+1)*size], t.NextObs[k*size:])
			replay.CopyMask(next.Mask[i*actions:(i+1)*actions], t.NextMask, k)
			next.Reward[i], next.Terminated[i], next.Truncated[i] = t.Reward[k], t.Terminated[k], t.Truncated[k]
		}
		copy(next.FinalObs, next.Obs)
		copy(next.FinalMask, next.Mask)
		l.buf.Add(l.obs, l.mask, l.actions, next)
	}
	return steps * n, nil
}
