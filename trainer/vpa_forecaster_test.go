package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// TestVPAForecaster trains a little, so that the loss falls, and plays the model.
func TestVPAForecaster(t *testing.T) {
	path := filepath.Join(t.TempDir(), "forecaster.safetensors")
	var res forecasterResult
	if err := json.Unmarshal([]byte(mustExecute(t, "vpa", "forecaster", "--episodes", "64", "--env-kwargs", "steps:720", "-o", path, "--json")), &res); err != nil {
		t.Fatal(err)
	}
	if res.Episodes != 64 || !(res.Last < 0.9*res.First) || !(res.HeldOut < res.First) {
		t.Errorf("%+v: want 64 episodes, and a loss that falls by a tenth, also on held-out workloads", res)
	}
	out := mustExecute(t, "compare", "--model", path, "--baseline", "upstream", "--episodes", "2")
	if !strings.Contains(out, "lstm_forecaster") {
		t.Errorf("compare does not play the forecaster:\n%s", out)
	}
	if _, _, err := execute(t, context.Background(), "compare", "--model", path, "--env-kwargs", "encoding:log", "--env-kwargs", "safety:none", "--episodes", "2"); err == nil {
		t.Error("the forecaster plays observations without upstream's amounts")
	}
}
