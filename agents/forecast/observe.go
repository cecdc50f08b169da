package forecast

import (
	"context"
	"slices"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
)

// Observe plays one episode in each environment and returns the observations. All environments must
// be at the start of an episode.
func Observe(ctx context.Context, v *envs.Vec, p agents.Policy, b *envs.Batch) (Episodes, *envs.Batch, error) {
	_, act := v.Spaces()
	actions := make([]float32, v.NumEnvs()*act.Size())
	e := Episodes{N: v.NumEnvs()}
	for done := false; !done; {
		e.Obs = append(e.Obs, b.Obs...)
		e.Steps++
		if err := p.Act(b, actions); err != nil {
			return e, b, err
		}
		var err error
		if b, err = v.Step(ctx, actions); err != nil {
			return e, b, err
		}
		done = slices.Contains(b.Truncated, true) // all end at once: episodes have one length
	}
	return e, b, nil
}
