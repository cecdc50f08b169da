package client_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/server/wire"
)

// columns returns copies of what a batch has, by name.
func columns(b *envs.Batch) map[string]any {
	return map[string]any{
		"Obs": slices.Clone(b.Obs), "Mask": slices.Clone(b.Mask), "Info": slices.Clone(b.Info), "Reward": slices.Clone(b.Reward),
		"Terminated": slices.Clone(b.Terminated), "Truncated": slices.Clone(b.Truncated), "Invalid": slices.Clone(b.Invalid),
		"FinalObs": slices.Clone(b.FinalObs), "FinalMask": slices.Clone(b.FinalMask), "FinalInfo": slices.Clone(b.FinalInfo),
		"EpisodeReturn": slices.Clone(b.EpisodeReturn), "EpisodeLength": slices.Clone(b.EpisodeLength),
	}
}

// TestJoinKeepsRows joins vectors in the middle of their episodes, one of which has just been
// truncated; a reset of other rows leaves the joined batch with what each had.
func TestJoinKeepsRows(t *testing.T) {
	s := hosttest.Start(t)
	const id = "k8s/GangWindow-v0"
	opts := client.Options{Autoreset: envs.SameStep, MaxEpisodeSteps: 3}
	var parts []*client.VecEnv
	var want []map[string]any
	for part := range 3 {
		v, seed := dial(t, s.WS, id, 2, opts), uint64(5+2*part)
		if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
			t.Fatal(err)
		}
		var b *envs.Batch
		for range 3 - part { // the first part ends its episodes with the third step
			var err error
			if b, err = v.Step(ctx, []float32{1, 2}); err != nil {
				t.Fatal(err)
			}
		}
		if b.Truncated[0] != (part == 0) {
			t.Fatalf("part %d: truncated is %v", part, b.Truncated)
		}
		parts, want = append(parts, v), append(want, columns(b))
	}
	j, err := client.Join(parts...)
	if err != nil {
		t.Fatal(err)
	}
	// The second part's first row begins again; the first part's rows have no new step, so that
	// what a step alone gives is cleared.
	b, err := j.Reset(ctx, envs.VecResetOptions{Mask: []bool{false, false, true, false, false, false}, Seeds: []uint64{0, 0, 42, 0, 0, 0}})
	if err != nil {
		t.Fatal(err)
	}
	got := columns(b)
	obs, info := len(b.Obs)/6, len(b.Info)/6
	if d := cmp.Diff(want[0]["Obs"], got["Obs"].([]float32)[:2*obs]); d != "" {
		t.Errorf("observations of the first part (-want +got):\n%s", d)
	}
	for _, name := range []string{"Mask", "FinalMask"} {
		if d := cmp.Diff(want[0][name], got[name].([]bool)[:len(want[0][name].([]bool))]); d != "" {
			t.Errorf("%s of the first part (-want +got):\n%s", name, d)
		}
	}
	if d := cmp.Diff(want[0]["FinalObs"], got["FinalObs"].([]float32)[:2*obs]); d != "" {
		t.Errorf("final observations of the first part (-want +got):\n%s", d)
	}
	for _, name := range []string{"Info", "FinalInfo", "EpisodeReturn"} {
		if d := cmp.Diff(want[0][name], got[name].([]float64)[:len(want[0][name].([]float64))]); d != "" {
			t.Errorf("%s of the first part (-want +got):\n%s", name, d)
		}
	}
	if d := cmp.Diff(append(slices.Clone(want[0]["EpisodeLength"].([]int64)), 0, 2, 1, 1), got["EpisodeLength"]); d != "" {
		t.Errorf("lengths (-want +got):\n%s", d)
	}

	// The third part's episodes run, so that their infos are not those of a beginning.
	if d := cmp.Diff(want[2]["Info"], got["Info"].([]float64)[4*info:]); d != "" || slices.Equal(b.Info[4*info:5*info], make([]float64, info)) {
		t.Errorf("infos of the third part %v (-want +got):\n%s", b.Info[4*info:], d)
	}

	// The seed of the row is its own: a vector of this process begins the same with it.
	w := local(t, id, 1, envs.VecOptions{Autoreset: envs.SameStep, MaxEpisodeSteps: 3})
	seed := uint64(42)
	first, err := w.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first.Obs, got["Obs"].([]float32)[2*obs:3*obs]); d != "" {
		t.Errorf("observation of the row with seed 42 (-want +got):\n%s", d)
	}
}

// An error of one part is the vector's, whether its request could not be sent or its reply not be read.
func TestJoinReportsParts(t *testing.T) {
	bad := replies{wire.TypeStep: func(w *wire.Writer, id uint64) { w.Head(2, "no", id) }}
	j, err := client.Join(dial(t, serve(t, nil), "test/Two-v0", 2, client.Options{}), dial(t, serve(t, bad), "test/Two-v0", 2, client.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Step(ctx, make([]float32, 4)); !errors.Is(err, client.ErrConnection) {
		t.Errorf("Step: %v, want ErrConnection of the second part", err)
	}
	if _, err := j.Reset(ctx, envs.VecResetOptions{}); !errors.Is(err, client.ErrConnection) {
		t.Errorf("Reset afterwards: %v, want ErrConnection of the second part", err)
	}
	if _, err := client.Join(); err == nil {
		t.Error("Join of nothing: no error")
	}
}

// Errors name the rows of the joined vector, not those of a server.
func TestJoinNamesRows(t *testing.T) {
	s := hosttest.Start(t)
	part := func() *client.VecEnv { return dial(t, s.WS, "classic/CartPole-v1", 2, client.Options{}) }
	j, err := client.Join(part(), part(), part())
	if err != nil {
		t.Fatal(err)
	}
	for row := range 6 {
		mask := make([]bool, 6)
		mask[row] = true
		_, err := j.Reset(ctx, envs.VecResetOptions{Mask: mask, Options: map[string]any{"low": 2.0, "high": 1.0}})
		if want := fmt.Sprintf("environment %d: ", row); !errors.Is(err, envs.ErrInvalidOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("a reset of row %d: %v, want ErrInvalidOption with %q", row, err, want)
		}
	}
	if _, err := j.RenderANSI(3); err == nil || !strings.Contains(err.Error(), "environment 3 before") {
		t.Errorf("row 3 rendered before its reset: %v, want its number", err)
	}
	if _, err := j.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Reset(ctx, envs.VecResetOptions{Mask: []bool{3: true, 5: false}, Options: map[string]any{"low": 2.0, "high": 1.0}}); err == nil {
		t.Fatal("options that are wrong: no error")
	}
	if _, err := j.State(ctx); !errors.Is(err, envs.ErrNoState) || !strings.Contains(err.Error(), "environment 3 must be reset") {
		t.Errorf("the state without row 3: %v, want ErrNoState with its number", err)
	}
}

// TestJoinCloses: a joined vector that is closed refuses further calls, and reports its parts' errors.
func TestJoinCloses(t *testing.T) {
	s := hosttest.Start(t)
	j, err := client.Join(dial(t, s.WS, "classic/CartPole-v1", 1, client.Options{}), dial(t, s.WS, "classic/CartPole-v1", 1, client.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Step(ctx, []float32{0, 0}); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("Step before Reset: %v, want ErrResetNeeded", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Step(ctx, []float32{0, 0}); !errors.Is(err, envs.ErrClosed) {
		t.Errorf("Step after Close: %v, want ErrClosed", err)
	}
	if _, err := j.Reset(ctx, envs.VecResetOptions{}); !errors.Is(err, envs.ErrClosed) {
		t.Errorf("Reset after Close: %v, want ErrClosed", err)
	}
}
