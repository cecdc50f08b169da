package session

import (
	"maps"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// Catalog describes the registered environments whose id contains filter, by ascending id.
func Catalog(filter string) []wire.Spec {
	specs := []wire.Spec{}
	for _, s := range envs.Specs() {
		if strings.Contains(s.ID, filter) {
			specs = append(specs, Describe(s))
		}
	}
	return specs
}

// Describe returns s in its wire form. No list is nil, so that clients need no case for it.
func Describe(s *envs.Spec) wire.Spec {
	d := wire.Spec{
		ID: s.ID, Doc: s.Doc, MaxEpisodeSteps: s.MaxEpisodeSteps, Nondeterministic: s.Nondeterministic,
		RenderModes: append([]string{}, slices.Clone(s.RenderModes)...),
		HeldOut:     map[string]any{}, Options: []wire.Option{}, Info: []wire.Column{}, Metrics: []wire.Metric{}, Baselines: []wire.Baseline{},
	}
	maps.Copy(d.HeldOut, s.HeldOut)
	if s.HasThreshold {
		d.RewardThreshold = &s.RewardThreshold
	}
	for _, o := range envs.DescribeOptions(s.Options) {
		d.Options = append(d.Options, wire.Option{Name: o.Name, Type: o.Type, Default: o.Default, Doc: o.Doc})
	}
	for _, c := range s.Info {
		d.Info = append(d.Info, wire.Column(c))
	}
	for _, m := range s.Metrics {
		d.Metrics = append(d.Metrics, wire.Metric(m))
	}
	for _, b := range s.Baselines {
		d.Baselines = append(d.Baselines, wire.Baseline{Name: b.Name, Doc: b.Doc, Oracle: b.Clairvoyant})
	}
	return d
}

// describeFeatures returns the names of an observation's elements in their wire form.
func describeFeatures(features []envs.Features) []wire.Features {
	var d []wire.Features
	for _, f := range features {
		d = append(d, wire.Features(f))
	}
	return d
}
