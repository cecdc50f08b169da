package agentstest

import "testing"

// CheckConfigs checks that newLearner accepts the hyperparameters right, also after the change
// bounds, and rejects them after each of the changes wrong. The keys of wrong are the whole texts
// of the errors.
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
