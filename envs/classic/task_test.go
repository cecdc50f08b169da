package classic

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
)

const id = "classic/CartPole-v1"

func makeCartPole(t testing.TB, n int, opts envs.VecOptions) *envs.Vec {
	t.Helper()
	v, err := envs.Make(id, n, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

func TestContract(t *testing.T) {
	spec, err := envs.Lookup(id)
	if err != nil {
		t.Fatal(err)
	}
	envcheck.Run(t, spec, envcheck.Options{})
}

func TestConstants(t *testing.T) {
	rec := loadRecording(t)
	spec, err := envs.Lookup(id)
	if err != nil {
		t.Fatal(err)
	}
	if spec.MaxEpisodeSteps != rec.MaxEpisodeSteps || spec.RewardThreshold != rec.RewardThreshold {
		t.Errorf("%d steps and threshold %v, want Gymnasium's %d and %v",
			spec.MaxEpisodeSteps, spec.RewardThreshold, rec.MaxEpisodeSteps, rec.RewardThreshold)
	}
	if diff := cmp.Diff(rec.Thresholds, float64s{xLimit, thetaLimit}); diff != "" {
		t.Errorf("thresholds (-Gymnasium +got):\n%s", diff)
	}
	if diff := cmp.Diff(rec.Masses, float64s{massTotal, poleMassLength}); diff != "" {
		t.Errorf("masses (-Gymnasium +got):\n%s", diff)
	}
	obs, act := NewCartPole(CartPoleOptions{InfiniteBounds: true}).Spaces()
	box := obs.(space.Box)
	if diff := cmp.Diff([]float32s{rec.Low, rec.High}, []float32s{box.Low, box.High}); diff != "" {
		t.Errorf("bounds (-Gymnasium +got):\n%s", diff)
	}
	if act != (space.Discrete{N: 2}) {
		t.Errorf("action space %v, want Discrete(2)", act)
	}
	obs, _ = NewCartPole(CartPoleOptions{}).Spaces()
	finite := obs.(space.Box) // Gymnasium 0.29's bounds
	if want := []float32{4.8, math.MaxFloat32, 24 * math.Pi / 180, math.MaxFloat32}; !slices.Equal(finite.High, want) {
		t.Errorf("finite bounds %v, want %v", finite.High, want)
	}
}

// TestHandWorked: from rest, 10 N on 1.1 kg give temp = 100/11, θ̈ = -temp/(41/66) = -600/41
// and ẍ = temp + (1/22)(600/41) = 400/41, which 20 ms turn into velocities of 8/41 and -12/41.
// The following step moves cart and pole by 20 ms of these.
func TestHandWorked(t *testing.T) {
	var s [4]float64
	check := func(i int, want float64) {
		t.Helper()
		if math.Abs(s[i]-want) > 1e-15 {
			t.Errorf("state[%d] = %v, want %v", i, s[i], want)
		}
	}
	if CartPoleStep(&s, 1) {
		t.Error("the first step terminates")
	}
	check(posX, 0)
	check(velX, 8.0/41)
	check(posTheta, 0)
	check(velTheta, -12.0/41)
	CartPoleStep(&s, 0)
	check(posX, 0.16/41)
	check(velX, 0) // θ is still 0, so that the opposite force takes back what the first gave
	check(posTheta, -0.24/41)
	check(velTheta, 0)
}

func TestTermination(t *testing.T) {
	next := math.Nextafter
	tests := []struct {
		name  string
		state [4]float64 // without velocity, so that position and angle stay
		want  bool
	}{
		{"upright in the middle", [4]float64{}, false},
		{"at the right limit", [4]float64{xLimit, 0, 0, 0}, false},
		{"beyond the right limit", [4]float64{next(xLimit, 3), 0, 0, 0}, true},
		{"at the left limit", [4]float64{-xLimit, 0, 0, 0}, false},
		{"beyond the left limit", [4]float64{next(-xLimit, -3), 0, 0, 0}, true},
		{"at 12°", [4]float64{0, 0, thetaLimit, 0}, false},
		{"beyond 12°", [4]float64{0, 0, next(thetaLimit, 1), 0}, true},
		{"at -12°", [4]float64{0, 0, -thetaLimit, 0}, false},
		{"beyond -12°", [4]float64{0, 0, next(-thetaLimit, -1), 0}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := CartPoleStep(&tt.state, 0); got != tt.want {
				t.Errorf("CartPoleStep() = %v, want %v", got, tt.want)
			}
		})
	}
}

// maxDiff bounds the difference of a velocity after one step. A C library's sine and cosine may
// be off in the last bit, by 2^-55 and 2^-53; over the other operations, on accelerations below
// 32 m/s², that becomes at most 2^-46, of which 20 ms make 2^-52, and the sum may round to a
// neighbour.
func maxDiff(velocity float64) float64 {
	v := math.Abs(velocity)
	return 0x1p-52 + (math.Nextafter(v, math.Inf(1)) - v)
}

// TestStepMatchesGymnasium takes each step from Gymnasium's own state.
func TestStepMatchesGymnasium(t *testing.T) {
	steps, inexact, differ := 0, 0, 0.0
	for _, run := range loadRecording(t).Runs {
		for _, e := range run.Episodes {
			for i := range e.Actions {
				state, want := e.state(i), e.state(i+1)
				terminated := CartPoleStep(&state, e.action(i))
				if terminated != e.Terminated[i] {
					t.Errorf("%s, step %d: terminated %v, want %v", run.Name, i, terminated, e.Terminated[i])
				}
				if state[posX] != want[posX] || state[posTheta] != want[posTheta] {
					t.Errorf("%s, step %d: positions %v, %v; want %v, %v", run.Name, i, state[posX], state[posTheta], want[posX], want[posTheta])
				}
				for _, k := range []int{velX, velTheta} {
					diff := math.Abs(state[k] - want[k])
					if diff > maxDiff(want[k]) {
						t.Errorf("%s, step %d: state[%d] = %v, want %v within %v", run.Name, i, k, state[k], want[k], maxDiff(want[k]))
					}
					differ = max(differ, diff)
				}
				if got := toFloat32(state); got != e.obs(i+1) {
					t.Errorf("%s, step %d: observation %v, want %v", run.Name, i, got, e.obs(i+1))
				}
				if state != want {
					inexact++
				}
				steps++
			}
		}
	}
	t.Logf("%d steps: all float32 observations compared; the float64 state differs after %d, by at most %.2g", steps, inexact, differ)
}

func toFloat32(s [4]float64) (obs [4]float32) {
	for i, x := range s {
		obs[i] = float32(x)
	}
	return obs
}

// TestEpisodesMatchGymnasium plays the recorded actions from the recorded seeds, options and
// unseeded resets, so that an episode's float64 state is never taken from the recording.
func TestEpisodesMatchGymnasium(t *testing.T) {
	episodes, steps, bad, inexact := 0, 0, 0, 0
	for _, run := range loadRecording(t).Runs {
		v := makeCartPole(t, 1, envs.VecOptions{Options: run.Options, Autoreset: envs.Disabled})
		for k, e := range run.Episodes {
			s, b, x := playRecorded(t, v, &e)
			episodes, steps, bad, inexact = episodes+1, steps+s, bad+b, inexact+x
			if b > 0 {
				t.Errorf("%s, episode %d: %d of %d steps differ from Gymnasium's", run.Name, k, b, s)
			}
		}
	}
	t.Logf("%d episodes, %d steps: %d differ in observation, reward or flags, and %d in the float64 state", episodes, steps, bad, inexact)
}

// playRecorded plays one episode and counts its steps, those that differ in the float32
// observation, the reward or a flag, and those that differ in the float64 state.
func playRecorded(t *testing.T, v *envs.Vec, e *recordedEpisode) (steps, bad, inexact int) {
	t.Helper()
	ctx := context.Background()
	task := v.Env(0).Task().(*CartPole)
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: e.Seed, Options: e.Options})
	if err != nil {
		t.Fatal(err)
	}
	if task.State() != e.state(0) || [4]float32(b.Obs) != e.obs(0) {
		t.Errorf("initial state %v, want %v", task.State(), e.state(0))
	}
	for i := range e.Actions {
		if b, err = v.Step(ctx, []float32{float32(e.action(i))}); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if [4]float32(b.Obs) != e.obs(i+1) || b.Reward[0] != e.Rewards[i] ||
			b.Terminated[0] != e.Terminated[i] || b.Truncated[0] != e.Truncated[i] {
			bad++
		}
		if task.State() != e.state(i+1) {
			inexact++
		}
		steps++
		if b.Done(0) {
			break
		}
	}
	return steps, bad + len(e.Actions) - steps, inexact
}

// TestAutoresetContinuesStream: the recorded run "continued" was seeded once.
func TestAutoresetContinuesStream(t *testing.T) {
	for _, run := range loadRecording(t).Runs {
		if run.Name != "continued" {
			continue
		}
		ctx := context.Background()
		v := makeCartPole(t, 1, envs.VecOptions{Autoreset: envs.NextStep})
		if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: run.Episodes[0].Seed}); err != nil {
			t.Fatal(err)
		}
		for k, e := range run.Episodes {
			if got := v.Env(0).Task().(*CartPole).State(); got != e.state(0) {
				t.Errorf("episode %d starts in %v, want %v", k, got, e.state(0))
			}
			for i := range e.Actions {
				if _, err := v.Step(ctx, []float32{float32(e.action(i))}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := v.Step(ctx, []float32{0}); err != nil { // resets
				t.Fatal(err)
			}
		}
	}
}

// TestBaselinesMatchGymnasium compares with the lengths that record.py's own implementation of
// each baseline reaches in Gymnasium.
func TestBaselinesMatchGymnasium(t *testing.T) {
	spec, err := envs.Lookup(id)
	if err != nil {
		t.Fatal(err)
	}
	rec := loadRecording(t)
	if len(rec.Baselines) != len(spec.Baselines) {
		t.Errorf("%d baselines, want the %d that record.py plays", len(spec.Baselines), len(rec.Baselines))
	}
	for _, base := range spec.Baselines {
		t.Run(base.Name, func(t *testing.T) {
			want := rec.Baselines[base.Name]
			if diff := cmp.Diff(want, baselineLengths(t, base, len(want))); diff != "" {
				t.Errorf("lengths by seed (-Gymnasium +got):\n%s", diff)
			}
		})
	}
}

func baselineLengths(t *testing.T, base envs.Baseline, episodes int) (lengths []int) {
	t.Helper()
	ctx := context.Background()
	v := makeCartPole(t, 1, envs.VecOptions{Autoreset: envs.Disabled})
	policy, err := base.New(v.Env(0).Task())
	if err != nil {
		t.Fatal(err)
	}
	action := make([]float32, 1)
	for seed := range uint64(episodes) {
		b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
		if err != nil {
			t.Fatal(err)
		}
		for first := true; !b.Done(0); first = false {
			if err := policy(ctx, v.Env(0).State(), first, action); err != nil {
				t.Fatal(err)
			}
			if b, err = v.Step(ctx, action); err != nil {
				t.Fatal(err)
			}
		}
		lengths = append(lengths, int(b.EpisodeLength[0]))
	}
	return lengths
}

func TestBaselineOfOtherTask(t *testing.T) {
	if _, err := baselines[0].New(nil); err == nil {
		t.Error("New(nil) = nil error")
	}
}

func TestResetOptionsRejects(t *testing.T) {
	tests := map[string]map[string]any{
		"low above high":         {"low": 0.2, "high": 0.1},
		"low above default high": {"low": 1},
		"not a number":           {"low": math.NaN()},
		"infinite":               {"high": math.Inf(1)},
		"text":                   {"low": "much"},
		"unknown":                {"mass": 1.0},
	}
	for name, opts := range tests {
		t.Run(name, func(t *testing.T) {
			p := NewCartPole(CartPoleOptions{})
			if err := p.ResetOptions(opts); !errors.Is(err, envs.ErrInvalidOption) {
				t.Errorf("ResetOptions(%v) = %v, want ErrInvalidOption", opts, err)
			}
			if p.bounds != defaultBounds {
				t.Errorf("rejected options set the bounds to %v", p.bounds)
			}
		})
	}
}

func TestOpenRejects(t *testing.T) {
	_, err := envs.Make(id, 1, envs.VecOptions{Options: map[string]any{"sutton_barto": true}})
	if !errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("Make with an unknown option: %v, want ErrInvalidOption", err)
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	p, rng := NewCartPole(CartPoleOptions{}), rand.New(pcg.New(1))
	obs, mask, action := make([]float32, 4), make([]bool, 2), []float32{1}
	allocs := testing.AllocsPerRun(100, func() {
		if err := p.Begin(t.Context(), nil, rng); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Apply(t.Context(), nil, action); err != nil {
			t.Fatal(err)
		}
		p.Observe(nil, obs, mask)
	})
	if allocs != 0 {
		t.Errorf("an episode of one step allocates %v times, want 0", allocs)
	}
}

func BenchmarkCartPoleStep(b *testing.B) {
	b.ReportAllocs()
	var s [4]float64
	for i := 0; b.Loop(); i++ {
		if CartPoleStep(&s, i&1) {
			s = [4]float64{}
		}
	}
}

// BenchmarkVecStep steps 64 environments; ns/op is for all.
func BenchmarkVecStep(b *testing.B) {
	const n = 64
	b.ReportAllocs()
	ctx := context.Background()
	v := makeCartPole(b, n, envs.VecOptions{Autoreset: envs.SameStep, Shards: 1})
	seed := uint64(0)
	if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
		b.Fatal(err)
	}
	actions, rng := make([]float32, n), rand.New(pcg.New(1))
	for b.Loop() {
		r := rng.Uint64()
		for i := range actions {
			actions[i] = float32(r >> i & 1)
		}
		if _, err := v.Step(ctx, actions); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/env-step")
}
