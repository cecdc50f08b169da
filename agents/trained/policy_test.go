package trained_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/trained"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/all"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

const pretrained = "../../models/pretrained"

// shipped returns the models of the repository.
func shipped(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(pretrained, "*", "*.safetensors"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("models of %s: %q, %v", pretrained, paths, err)
	}
	return paths
}

func name(path string) string {
	return strings.TrimSuffix(filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path)), ".safetensors")
}

func open(t testing.TB, path string) *trained.Policy {
	t.Helper()
	p, err := trained.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// inputs returns n observations of p, drawn within the bounds of its space, and masks.
func inputs(p *trained.Policy, n int, rng *rand.Rand) (obs []float32, mask []bool) {
	space, act := p.Spaces()
	for range n * space.Size() {
		obs = append(obs, float32(rng.NormFloat64()))
	}
	mask = make([]bool, n*p.MaskSize())
	for i := range mask {
		mask[i] = rng.IntN(2) == 0
	}
	if d := act.Describe(); d.Kind == "discrete" {
		for i := range n {
			mask[i*d.N[0]+rng.IntN(d.N[0])] = true
		}
	}
	return obs, mask
}

// TestKeepsThePoleUp: CartPole's episodes end at 500 steps if the pole never falls.
func TestKeepsThePoleUp(t *testing.T) {
	for _, algo := range []string{"ppo", "a2c", "dqn", "reinforce", "ppo_lstm"} {
		p := open(t, filepath.Join(pretrained, "classic-CartPole-v1", algo+".safetensors"))
		v, err := envs.Make(p.Model().Env, 1, envs.VecOptions{Autoreset: envs.Disabled})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		for seed := range uint64(3) {
			b, err := v.Reset(ctx, envs.VecResetOptions{Seeds: []uint64{seed}})
			if err != nil {
				t.Fatal(err)
			}
			p.Begin()
			steps, action := 0, make([]float32, 1)
			for ; !b.Done(0); steps++ {
				if err := p.Act(b.Obs, b.Mask, action); err != nil {
					t.Fatal(err)
				}
				if b, err = v.Step(ctx, action); err != nil {
					t.Fatal(err)
				}
			}
			if steps != 500 {
				t.Errorf("%s, seed %d: the pole fell after %d steps, want 500", algo, seed, steps)
			}
		}
	}
}

// TestOneByOne: the rows of a batch and the batches of several calls are independent, and a state
// belongs to its row. Each shipped model answers 4 rows over 3 steps, in one Policy and in one for each.
func TestOneByOne(t *testing.T) {
	const rows, steps = 4, 3
	rng := rand.New(rand.NewPCG(1, 2))
	for _, path := range shipped(t) {
		t.Run(name(path), func(t *testing.T) {
			all := open(t, path)
			_, act := all.Spaces()
			single := make([]*trained.Policy, rows)
			for i := range single {
				var err error
				if single[i], err = all.Clone(); err != nil {
					t.Fatal(err)
				}
			}
			got, want := make([]float32, rows*act.Size()), make([]float32, rows*act.Size())
			for step := range steps {
				obs, mask := inputs(all, rows, rng)
				if step == 2 { // an episode of row 1 begins
					all.BeginRow(1)
					single[1].Begin()
				}
				if err := all.Act(obs, mask, got); err != nil {
					t.Fatal(err)
				}
				for i, p := range single {
					o, m, a := len(obs)/rows, len(mask)/rows, act.Size()
					if err := p.Act(obs[i*o:(i+1)*o], mask[i*m:(i+1)*m], want[i*a:(i+1)*a]); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("step %d (-one by one +batch):\n%s", step, diff)
				}
			}
		})
	}
}

// TestBeginForgets: the first observation of an episode is answered as that of a new policy; others are
// not, or the state would be of no use.
func TestBeginForgets(t *testing.T) {
	path := filepath.Join(pretrained, "k8s-GangWindow-v0", "ppo_lstm.safetensors")
	p, fresh := open(t, path), open(t, path)
	obs, _ := inputs(p, 1, rand.New(rand.NewPCG(3, 4)))
	scores := func(p *trained.Policy) []float32 {
		s := make([]float32, 4)
		if err := p.Scores(obs, s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	first, second := scores(p), scores(p)
	if slices.Equal(first, second) {
		t.Errorf("the second step equals the first: %v", first)
	}
	p.Begin()
	if again := scores(p); !slices.Equal(again, first) || !slices.Equal(again, scores(fresh)) {
		t.Errorf("after Begin %v, want %v", again, first)
	}
	// Probabilities are those of the next step, and change nothing.
	probs, same := make([]float32, 4), make([]float32, 4)
	for _, to := range [][]float32{probs, same} {
		if err := p.Probabilities(obs, nil, to); err != nil {
			t.Fatal(err)
		}
	}
	if want := softmax(second, nil); !near(probs, want, 1e-6) || !slices.Equal(probs, same) || !slices.Equal(scores(p), second) {
		t.Errorf("probabilities %v and %v, want those of %v: %v", probs, same, second, want)
	}
}

// TestValuesAreNoStep: a policy whose states are valued before each step acts as one whose are not.
func TestValuesAreNoStep(t *testing.T) {
	path := filepath.Join(pretrained, "classic-CartPole-v1", "ppo_lstm.safetensors")
	p, plain := open(t, path), open(t, path)
	rng := rand.New(rand.NewPCG(3, 4))
	values, got, want := make([]float32, 1), make([]float32, 2), make([]float32, 2)
	for step := range 5 {
		obs, _ := inputs(p, 1, rng)
		if err := errors.Join(p.Values(obs, values), p.Scores(obs, got), plain.Scores(obs, want)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("step %d: scores %v after Values, want %v", step, got, want)
		}
	}
}

// softmax returns the probabilities of logits, by their definition.
func softmax(logits []float32, mask []bool) []float32 {
	sum, p := 0.0, make([]float32, len(logits))
	for i, l := range logits {
		if mask == nil || mask[i] {
			sum += math.Exp(float64(l))
		}
	}
	for i, l := range logits {
		if mask == nil || mask[i] {
			p[i] = float32(math.Exp(float64(l)) / sum)
		}
	}
	return p
}

func near(a, b []float32, limit float64) bool {
	return len(a) == len(b) && !slices.ContainsFunc(indices(a), func(i int) bool { return math.Abs(float64(a[i])-float64(b[i])) > limit })
}

func indices[T any](s []T) []int {
	var all []int
	for i := range s {
		all = append(all, i)
	}
	return all
}

// TestProbabilities: the softmax of the permitted scores, which Sample draws from. 40,000 draws deviate by
// less than 4 standard deviations (0.01).
func TestProbabilities(t *testing.T) {
	p := open(t, filepath.Join(pretrained, "k8s-GangWindow-v0", "reinforce.safetensors"))
	obs, _ := inputs(p, 1, rand.New(rand.NewPCG(5, 6)))
	scores, probs, action := make([]float32, 4), make([]float32, 4), make([]float32, 1)
	if err := p.Scores(obs, scores); err != nil {
		t.Fatal(err)
	}
	for _, mask := range [][]bool{nil, {true, false, true, true}} {
		if err := p.Probabilities(obs, mask, probs); err != nil {
			t.Fatal(err)
		}
		if want := softmax(scores, mask); !near(probs, want, 1e-6) {
			t.Errorf("mask %v: probabilities %v, want %v", mask, probs, want)
		}
		const draws = 40_000
		rng, counts := rand.New(rand.NewPCG(7, 8)), make([]float32, 4)
		for range draws {
			if err := p.Sample(rng, obs, mask, action); err != nil {
				t.Fatal(err)
			}
			counts[int(action[0])] += 1. / draws
		}
		if !near(counts, probs, 0.01) {
			t.Errorf("mask %v: drew %v, want %v", mask, counts, probs)
		}
	}
}

// write writes a model without hidden layers, whose biases are the outputs.
func write(t *testing.T, spec models.Spec, act space.Space, outputs ...float32) string {
	t.Helper()
	text := func(s space.Space) string {
		b, err := json.Marshal(s.Describe())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	net, err := fused.New(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range net.Params() {
		if strings.HasPrefix(p.Name, "action_net.bias") {
			copy(p.Value, outputs)
		} else if p.Name == "log_std" {
			copy(p.Value, []float32{-30, 0}) // e⁻³⁰ is 0 beside 1
		}
	}
	f := models.File{Meta: models.Checkpoint{Algo: "ppo", Spec: spec, ObservationSpace: text(space.NewBox(-1, 1, spec.Inputs)), ActionSpace: text(act)}}
	f.PutParams(net.Params())
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := models.WriteFile(path, f); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKindsOfActions: distributions worked by hand. ln 3 stands for three to one.
func TestKindsOfActions(t *testing.T) {
	ln3, obs := float32(math.Log(3)), []float32{0.5}
	multi := space.MultiDiscrete{NVec: []int{2, 3}}
	p := open(t, write(t, models.MultiDiscreteActorCritic(1, multi.NVec, nil, ""), multi, 0, ln3, ln3, 0, ln3))
	check := func(p *trained.Policy, mask []bool, probs, action []float32) {
		t.Helper()
		got, a := make([]float32, len(probs)), make([]float32, len(action))
		if err := p.Probabilities(obs, mask, got); err != nil || !near(got, probs, 1e-6) {
			t.Errorf("probabilities %v, %v; want %v", got, err, probs)
		}
		if err := p.Act(obs, mask, a); err != nil || !slices.Equal(a, action) {
			t.Errorf("action %v, %v; want %v", a, err, action)
		}
	}
	check(p, nil, []float32{1. / 4, 3. / 4, 3. / 7, 1. / 7, 3. / 7}, []float32{1, 0})
	check(p, []bool{true, false, false, true, true}, []float32{1, 0, 0, 1. / 4, 3. / 4}, []float32{0, 2})

	binary := space.MultiBinary{N: 2}
	p = open(t, write(t, models.ActorCritic(1, 2, nil, ""), binary, ln3, -ln3))
	check(p, nil, []float32{1. / 4, 3. / 4, 3. / 4, 1. / 4}, []float32{1, 0})
	check(p, []bool{true, false, false, true}, []float32{1, 0, 0, 1}, []float32{0, 1})

	box := space.NewBox(-1, 1, 2)
	p = open(t, write(t, models.GaussianActorCritic(1, 2, nil, "", 0), box, 0.25, 7))
	a, rng := make([]float32, 2), rand.New(rand.NewPCG(1, 1))
	if err := p.Act(obs, nil, a); err != nil || !slices.Equal(a, []float32{0.25, 1}) {
		t.Errorf("action %v, %v; want the mean within the box: 0.25, 1", a, err)
	}
	if err := p.Sample(rng, obs, nil, a); err != nil || !slices.Equal(a, []float32{0.25, 1}) {
		t.Errorf("drew %v, %v; want 0.25 with no deviation, and 7 ± 1 cut to 1", a, err)
	}
	if err := p.Probabilities(obs, nil, nil); !errors.Is(err, trained.ErrNoDistribution) {
		t.Errorf("probabilities of Box actions: %v, want ErrNoDistribution", err)
	}
}

// TestRefuses: each message names what was given and what is wanted.
func TestRefuses(t *testing.T) {
	p := open(t, filepath.Join(pretrained, "classic-CartPole-v1", "ppo.safetensors"))
	q := open(t, filepath.Join(pretrained, "classic-CartPole-v1", "dqn.safetensors"))
	f := open(t, filepath.Join(pretrained, "k8s-VerticalPodAutoscaler-v0", "lstm_forecaster.safetensors"))
	one, obs := make([]float32, 1), make([]float32, 4)
	bad := []float32{0, 0, float32(math.NaN()), 0}
	for what, tc := range map[string]struct {
		err  error
		is   error
		want string
	}{
		"short observation": {p.Act(obs[:3], nil, one), trained.ErrInput, "3 numbers of observations, want 4 for each"},
		"no observation":    {p.Act(nil, nil, nil), trained.ErrInput, "0 numbers of observations, want 4 for each"},
		"NaN":               {p.Act(bad, nil, one), trained.ErrInput, "has NaN at 2"},
		"long action":       {p.Act(obs, nil, obs), trained.ErrInput, "room for 4 results of 1 observations, want 1 for each"},
		"short mask":        {p.Act(obs, []bool{true}, one), trained.ErrInput, "a mask of 1 for 1 observations, want 2 for each"},
		"closed mask":       {p.Act(make([]float32, 8), []bool{true, true, false, false}, make([]float32, 2)), trained.ErrInput, "permits none of elements 2 to 3"},
		"values sampled":    {q.Sample(rand.New(rand.NewPCG(1, 1)), obs, nil, one), trained.ErrNoDistribution, "dqn; use Act"},
		"their probability": {q.Probabilities(obs, nil, obs[:2]), trained.ErrNoDistribution, "dqn"},
		"forecaster rates":  {f.Scores(make([]float32, 45), one), nil, "lstm_forecaster"},
	} {
		if tc.err == nil || tc.is != nil && !errors.Is(tc.err, tc.is) || !strings.Contains(tc.err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", what, tc.err, tc.want)
		}
	}
	if _, err := trained.Open("policy_test.go"); err == nil || !strings.Contains(err.Error(), "policy_test.go") {
		t.Errorf("a file of Go: %v, want an error that names it", err)
	}
	if _, err := trained.Open("none.safetensors"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v, want ErrNotExist", err)
	}
}

// TestOpenFor: a policy over nodes serves another number of them; a dense one does not.
func TestOpenFor(t *testing.T) {
	path := filepath.Join(pretrained, "k8s-PodBalance-v0", "ppo.safetensors")
	obs, _ := open(t, path).Spaces()
	larger := space.Dict{Fields: slices.Clone(obs.(space.Dict).Fields)}
	features := 0
	for i, f := range larger.Fields {
		if f.Key == "nodes" {
			features = f.Space.Describe().Shape[1]
			larger.Fields[i].Space = space.NewBox(-1, 1, 12, features)
		}
	}
	p, err := trained.OpenFor(path, larger, space.Discrete{N: 12})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := p.Spaces(); got.Size() != obs.Size()+2*features || p.MaskSize() != 12 {
		t.Errorf("observations of %d numbers and masks of %d, want %d and 12", got.Size(), p.MaskSize(), obs.Size()+2*features)
	}
	if err := p.Act(make([]float32, larger.Size()), nil, make([]float32, 1)); err != nil {
		t.Error(err)
	}
	dense := filepath.Join(pretrained, "classic-CartPole-v1", "ppo.safetensors")
	if _, err := trained.OpenFor(dense, space.NewBox(-1, 1, 5), space.Discrete{N: 2}); !errors.Is(err, models.ErrMismatch) {
		t.Errorf("five numbers for CartPole: %v, want ErrMismatch", err)
	}
}

// TestGoroutines: clones answer at the same time as one alone.
func TestGoroutines(t *testing.T) {
	p := open(t, filepath.Join(pretrained, "classic-CartPole-v1", "ppo.safetensors"))
	obs, _ := inputs(p, 64, rand.New(rand.NewPCG(9, 9)))
	want := make([]float32, 64)
	if err := p.Act(obs, nil, want); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		q, err := p.Clone()
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for i, w := range want {
				got := make([]float32, 1)
				if err := q.Act(obs[4*i:4*i+4], nil, got); err != nil || got[0] != w {
					t.Errorf("row %d: %v, %v; want %v", i, got, err, w)
				}
			}
		})
	}
	wg.Wait()
}

// TestAllocates nothing.
func TestAllocates(t *testing.T) {
	for _, path := range shipped(t) {
		p := open(t, path)
		_, act := p.Spaces()
		obs, mask := inputs(p, 1, rand.New(rand.NewPCG(1, 2)))
		action, probs, rng := make([]float32, act.Size()), make([]float32, p.MaskSize()), rand.New(rand.NewPCG(3, 4))
		if n := testing.AllocsPerRun(20, func() {
			if err := p.Act(obs, mask, action); err != nil {
				t.Fatal(err)
			}
			if noDistribution(p) {
				return
			}
			if err := p.Sample(rng, obs, mask, action); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations by Act and Sample, want none", name(path), n)
		}
		if noDistribution(p) || len(probs) == 0 {
			continue
		}
		if n := testing.AllocsPerRun(20, func() {
			if err := p.Probabilities(obs, mask, probs); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations by Probabilities, want none", name(path), n)
		}
	}
}

func noDistribution(p *trained.Policy) bool {
	return slices.Contains([]string{"dqn", "lstm_forecaster"}, p.Model().Algo)
}

// BenchmarkAct measures one observation of each shipped model.
func BenchmarkAct(b *testing.B) {
	for _, path := range shipped(b) {
		b.Run(name(path), func(b *testing.B) {
			p := open(b, path)
			_, act := p.Spaces()
			obs, mask := inputs(p, 1, rand.New(rand.NewPCG(1, 2)))
			action := make([]float32, act.Size())
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Act(obs, mask, action); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
