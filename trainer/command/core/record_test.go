package core

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// endingContext is canceled once Err has been asked for left times.
type endingContext struct {
	context.Context
	left atomic.Int64
}

func (c *endingContext) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestInterruptedRecordKeeps: what was recorded before an interrupt is in the file, and the same
// transitions come first in a whole recording.
func TestInterruptedRecordKeeps(t *testing.T) {
	const steps = 200
	folder := t.TempDir()
	record := func(ctx context.Context, name string) (string, error) {
		path := filepath.Join(folder, name)
		_, err := recording{env: "classic/CartPole-v1", policy: "random", steps: steps, seed: 1, out: path}.record(ctx)
		return path, err
	}
	ending := &endingContext{Context: context.Background()}
	ending.left.Store(100)
	path, err := record(ending, "part.safetensors")
	if !errors.Is(err, cli.ErrInterrupted) || !strings.Contains(err.Error(), "of 200 transitions") {
		t.Fatalf("record gives %v, want errInterrupted with the number of transitions", err)
	}
	part, _, err := run.ReadTransitions(path)
	if err != nil {
		t.Fatal(err)
	}
	path, err = record(context.Background(), "whole.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	whole, _, err := run.ReadTransitions(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := part.Len(); n < 1 || n >= steps || whole.Len() != steps {
		t.Fatalf("%d and %d transitions, want some of %d, and all", n, whole.Len(), steps)
	}
	for i, action := range part.Action {
		if action != whole.Action[i] {
			t.Fatalf("action %d is %v, of the whole recording %v", i, action, whole.Action[i])
		}
	}
}
