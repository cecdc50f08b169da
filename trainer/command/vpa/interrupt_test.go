package vpa

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/kubernasium/kubernasium/agents/forecast"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// TestInterruptForecaster: what the passes have trained is kept, and not in the place of a whole
// training's model.
func TestInterruptForecaster(t *testing.T) {
	folder := t.TempDir()
	c := forecasterConfig{Config: forecast.Defaults(), kwargs: map[string]any{"encoding": "upstream", "safety": "memory", "hold": 30, "steps": 720}, seed: 1, out: filepath.Join(folder, "f.safetensors")}
	c.Episodes, c.Batch, c.Epochs = 2, 2, 1_000_000
	_, err := c.train(clitest.EndsAfter(t, 20_000), "trainer vpa forecaster")
	kept := filepath.Join(folder, "f_interrupted.safetensors")
	if !errors.Is(err, cli.ErrInterrupted) || !regexp.MustCompile(`after [1-9]\d* of 1000000 passes: .* in `+regexp.QuoteMeta(kept)).MatchString(err.Error()) {
		t.Fatalf("%v, want an interrupt that names %s", err, kept)
	}
	mustExecute(t, "eval", "--model", kept, "--episodes", "1", "--env-kwargs", "steps:720")
	if _, err := os.Stat(c.out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v, want that it is not written", c.out, err)
	}
}
