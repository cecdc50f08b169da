package core

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// plotEpisode plays the first episode of an evaluation again, in this process, and plots it.
func plotEpisode(ctx context.Context, spec *envs.Spec, kwargs map[string]any, c play.Config, path string) error {
	v, err := envs.NewVec(spec, 1, envs.VecOptions{Options: kwargs, Autoreset: envs.Disabled})
	if err != nil {
		return err
	}
	defer v.Close()
	charter, ok := v.Env(0).Task().(envs.Charter)
	if !ok {
		return fmt.Errorf("%s has no plot of an episode; --plot needs an environment that has", spec.ID)
	}
	name, policy, closePolicy, err := play.OpenPolicy(ctx, v, c)
	if err != nil {
		return err
	}
	defer closePolicy()
	if _, err := play.PlayEpisode(ctx, v, policy, envs.VecResetOptions{Seed: &c.Seed}, nil); err != nil {
		return err
	}
	return drawChart(path, charter.Chart(), name)
}

func drawChart(path string, chart *envs.Chart, policy string) error {
	var panels []tracking.Panel
	for _, p := range chart.Panels {
		panel := tracking.Panel{YLabel: p.YLabel}
		for _, l := range p.Lines {
			panel.Lines = append(panel.Lines, tracking.PanelLine{Name: l.Name, Y: l.Y})
		}
		panels = append(panels, panel)
	}
	var events []tracking.Events
	for _, e := range chart.Events {
		events = append(events, tracking.Events{Name: e.Name, X: e.X})
	}
	return tracking.Timeline(path, policy+" on "+chart.Title, chart.XLabel, chart.X, panels, events)
}
