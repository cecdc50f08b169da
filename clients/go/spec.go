package client

import (
	"errors"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// errRemote is the error of functions that only the server can run.
var errRemote = errors.New("client: the environment is on the server; open it there with Dial")

// specOf returns the Spec of a remote environment. Its Open and baselines return errors, since the
// tasks are on the server.
func specOf(d *wire.Spec) *envs.Spec {
	s := &envs.Spec{
		ID: d.ID, Doc: d.Doc, MaxEpisodeSteps: d.MaxEpisodeSteps, Nondeterministic: d.Nondeterministic, RenderModes: d.RenderModes,
		Open: func(map[string]any) (envs.Maker, error) { return nil, errRemote },
	}
	if len(d.HeldOut) > 0 {
		s.HeldOut = d.HeldOut
	}
	if d.RewardThreshold != nil {
		s.RewardThreshold, s.HasThreshold = *d.RewardThreshold, true
	}
	for _, c := range d.Info {
		s.Info = append(s.Info, envs.Column(c))
	}
	for _, m := range d.Metrics {
		s.Metrics = append(s.Metrics, envs.Metric(m))
	}
	for _, b := range d.Baselines {
		s.Baselines = append(s.Baselines, envs.Baseline{
			Name: b.Name, Doc: b.Doc, Clairvoyant: b.Oracle, New: func(envs.Task) (envs.Policy, error) { return nil, errRemote },
		})
	}
	return s
}
