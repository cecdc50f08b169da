package kwoktest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// Simulate reads YAML and simulates the placement of its pods by the Decider that decide returns, or by the
// plugin if decide is nil. It returns the error of the first failing step.
func Simulate(t *testing.T, text, plugin string, decide func(o *kubeyaml.Objects, w *kubeyaml.Workload) gpushare.Decider) (*gpushare.Report, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := kubeyaml.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	w, err := o.Workload()
	if err != nil {
		t.Fatal(err)
	}
	options := gpushare.SimulationOptions{}
	if decide != nil {
		options.Decider = decide(o, w)
	}
	s, err := gpushare.NewSimulation(w.Nodes, w.Pods, []gpushare.Profile{{Plugins: []gpushare.ScorePlugin{{Name: plugin, Weight: 1}}, Devices: plugin}}, options)
	if err != nil {
		t.Fatal(err)
	}
	for s.Pending() > 0 {
		if err := s.Step(context.Background()); err != nil {
			return nil, err
		}
	}
	return s.Report(), nil
}
