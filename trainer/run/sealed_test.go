package run_test

import (
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// TestSealedSeeds: no training plays episodes of the sealed block: neither its own first ones, from its seed on, nor those
// that it imitates, from 500,000,000 after it.
func TestSealedSeeds(t *testing.T) {
	for name, set := range map[string]func(*run.Config){
		"first":            func(c *run.Config) { c.Seed = play.SealedSeed },
		"last environment": func(c *run.Config) { c.Seed = play.SealedSeed + 1 - uint64(c.Params.NEnvs) },
		"imitation": func(c *run.Config) {
			c.Seed, c.Imitate = play.SealedSeed-500_000_000, run.Imitation{Baseline: "static_2", Steps: 20, Epochs: 1, Rounds: 1}
		},
	} {
		c, params := gang(t)
		c.Params.NEnvs = 4
		set(&c)
		if _, err := train(t, c, params); err == nil || !strings.Contains(err.Error(), "sealed block") {
			t.Errorf("%s: %v, want an error about the sealed block", name, err)
		}
	}
}
