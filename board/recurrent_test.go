package board_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/envs"
)

// counting is a recurrent policy, which takes action 0 at even steps of an episode and 1 at odd ones.
type counting struct{ steps int }

func (c *counting) Act(b *envs.Batch, actions []float32) error {
	scores := make([]float32, 2)
	err := c.Scores(b, scores)
	actions[0] = scores[1]
	return err
}

func (c *counting) Scores(b *envs.Batch, scores []float32) error {
	if b.Begins(0) {
		c.steps = 0
	}
	clear(scores)
	scores[c.steps%2] = 1
	c.steps++
	return nil
}

// TestScoresOfRecurrentPolicy: amid an episode the highest score is that of the action which a new policy takes.
func TestScoresOfRecurrentPolicy(t *testing.T) {
	b := &envs.Batch{Obs: []float32{0}, Mask: []bool{true, true}, Reward: []float64{0}, EpisodeLength: []int64{7}}
	p, action := &counting{}, []float32{-1}
	if err := p.Act(b, action); err != nil || action[0] != 0 {
		t.Fatalf("action %v, %v, want 0", action[0], err)
	}
	if s := board.ScoresOf(p, b, 2); *s.Actions[0] != 1 || *s.Actions[1] != 0 {
		t.Errorf("scores %v and %v of the actions, want 1 and 0", *s.Actions[0], *s.Actions[1])
	}
	if b.EpisodeLength[0] != 7 {
		t.Errorf("ScoresOf changed the length of the episode to %d", b.EpisodeLength[0])
	}
}
