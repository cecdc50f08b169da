package agentstest

import "testing"

// CheckConfigs makes a learner of right hyperparameters, and of those after the change bounds,
// which is right, too; and of those after each of the wrong changes, by the whole error that it
// gives.
func CheckConfigs[C any](t *testing.T, right C, newLearner func(cfg C) error, bounds func(cfg *C), wrong map[string]func(cfg *C)) {
	t.Helper()
	if err := newLearner(right); err != nil {
		t.Errorf("defaults: %v", err)
	}
	cfg := right
	bounds(&cfg)
	if err := newLearner(cfg); err != nil {
		t.Errorf("bounds: %v", err)
	}
	for want, change := range wrong {
		cfg := right
		change(&cfg)
		if err := newLearner(cfg); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
