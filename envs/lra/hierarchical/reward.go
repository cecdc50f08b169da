package hierarchical

import (
	"context"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// pay returns the reward of giving a container to sub-cluster sub. With dense rewards it fills sub again and returns
// the growth of its objective. At the end it fills all sub-clusters and returns the objective less the earlier rewards.
func (t *Task) pay(ctx context.Context, c cluster.Cluster, sub int, end bool) (reward float64, err error) {
	switch {
	case end:
		if err := t.finish(ctx, c); err != nil {
			return 0, err
		}
		reward = t.tally.Value/float64(len(t.queue)) - t.earned
	case t.src.Options.Reward == world.RewardDense:
		before := t.values[sub]
		if err := t.fill(sub); err != nil {
			return 0, err
		}
		reward = (t.values[sub] - before) / float64(len(t.queue))
	}
	t.earned += reward
	return reward, nil
}
