package replay

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
)

// recorder feeds a buffer of one environment with observations 1, 2, 3, … and rewards 10, 20, 30,
// …; final observations are the negative of the one before, with the mask of two later, and action
// a has number a%2.
type recorder struct {
	b    *Buffer
	k    int
	mask func(k int) []bool // at observation k
}

func newRecorder(cfg Config) *recorder {
	cfg.NumEnvs, cfg.ObsSize, cfg.MaskSize = 1, 1, 2
	return &recorder{b: New(cfg), k: 1, mask: func(int) []bool { return []bool{true, true} }}
}

// step records a step whose end is "" for none, "T" for terminated, "L" for truncated or "TL"
// for both.
func (r *recorder) step(ends ...string) {
	for _, end := range ends {
		next := &envs.Batch{
			Obs: []float32{float32(r.k + 1)}, Mask: r.mask(r.k + 1), FinalObs: []float32{float32(-r.k)}, FinalMask: r.mask(r.k + 2),
			Reward: []float64{float64(10 * r.k)}, Terminated: []bool{end == "T" || end == "TL"}, Truncated: []bool{end == "L" || end == "TL"},
		}
		r.b.Add([]float32{float32(r.k)}, r.mask(r.k), []float32{float32(r.k % 2)}, next)
		r.k++
	}
}

// row is a transition as a batch holds it.
type row struct {
	Obs, Action, Return, Discount, NextObs float32
	NextMask                               [2]bool
}

// rows returns all that can be sampled, from the oldest.
func (r *recorder) rows() []row {
	out, b := r.b.NewBatch(1), r.b
	var all []row
	for age := b.size[0]; age > 0; age-- {
		s := (b.head[0] - age + b.ring) % b.ring
		if !isTransition(b.kind[s]) {
			continue
		}
		out.slot[0] = s
		b.gather(0, out)
		x := row{out.Obs[0], out.Action[0], out.Return[0], out.Discount[0], out.NextObs[0], [2]bool(out.NextMask)}
		if x.Discount == 0 { // the next observation is of no account
			x.NextObs, x.NextMask = 0, [2]bool{}
		}
		all = append(all, x)
	}
	return all
}

var both = [2]bool{true, true}

// All values are worked by hand, with γ = 1/2.
func TestReturns(t *testing.T) {
	odd := func(k int) []bool { return []bool{true, k%2 == 1} }
	m := func(k int) [2]bool { return [2]bool(odd(k)) }
	for _, tc := range []struct {
		name   string
		nSteps int
		masked bool // action 1 is masked out at even observations
		ends   []string
		want   []row
	}{
		{"one step", 1, false, []string{"", "", ""}, []row{
			{1, 1, 10, 0.5, 2, both}, {2, 0, 20, 0.5, 3, both}, {3, 1, 30, 0.5, 4, both},
		}},
		{"one step, masked", 1, true, []string{"", "", ""}, []row{
			{1, 1, 10, 0.5, 2, m(2)}, {2, 0, 20, 0.5, 3, m(3)}, {3, 1, 30, 0.5, 4, m(4)},
		}},
		{"terminated", 1, false, []string{"", "T", ""}, []row{
			{1, 1, 10, 0.5, 2, both}, {2, 0, 20, 0, 0, [2]bool{}}, {3, 1, 30, 0.5, 4, both},
		}},
		{"truncated", 1, false, []string{"", "L", ""}, []row{
			{1, 1, 10, 0.5, 2, both}, {2, 0, 20, 0.5, -2, both}, {3, 1, 30, 0.5, 4, both},
		}},
		{"both at once", 1, false, []string{"", "TL", ""}, []row{
			{1, 1, 10, 0.5, 2, both}, {2, 0, 20, 0, 0, [2]bool{}}, {3, 1, 30, 0.5, 4, both},
		}},
		{"truncated, masked", 1, true, []string{"", "L", ""}, []row{
			{1, 1, 10, 0.5, 2, m(2)}, {2, 0, 20, 0.5, -2, m(4)}, {3, 1, 30, 0.5, 4, m(4)},
		}},
		{"three steps", 3, false, []string{"", "", "", ""}, []row{
			{1, 1, 10 + 10 + 7.5, 0.125, 4, both}, {2, 0, 20 + 15 + 10, 0.125, 5, both},
			{3, 1, 30 + 20, 0.25, 5, both}, {4, 0, 40, 0.5, 5, both}, // up to what is known
		}},
		{"three steps, terminated", 3, false, []string{"", "T", "", ""}, []row{
			{1, 1, 10 + 10, 0, 0, [2]bool{}}, {2, 0, 20, 0, 0, [2]bool{}},
			{3, 1, 30 + 20, 0.25, 5, both}, {4, 0, 40, 0.5, 5, both},
		}},
		{"three steps, truncated", 3, false, []string{"", "L", "", ""}, []row{
			{1, 1, 10 + 10, 0.25, -2, both}, {2, 0, 20, 0.5, -2, both},
			{3, 1, 30 + 20, 0.25, 5, both}, {4, 0, 40, 0.5, 5, both},
		}},
		{"three steps, truncated, masked", 3, true, []string{"", "L", "", ""}, []row{
			{1, 1, 10 + 10, 0.25, -2, m(4)}, {2, 0, 20, 0.5, -2, m(4)},
			{3, 1, 30 + 20, 0.25, 5, m(5)}, {4, 0, 40, 0.5, 5, m(5)},
		}},
		{"truncated in each step", 2, false, []string{"L", "L"}, []row{
			{1, 1, 10, 0.5, -1, both}, {2, 0, 20, 0.5, -2, both},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRecorder(Config{Size: 100, NSteps: tc.nSteps, Gamma: 0.5})
			if tc.masked {
				r.mask = odd
			}
			r.step(tc.ends...)
			if diff := cmp.Diff(tc.want, r.rows()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := r.b.Len(); got != len(tc.want) {
				t.Errorf("Len() = %d, want %d", got, len(tc.want))
			}
		})
	}
}

// TestRingForgetsTheOldest keeps 4 transitions; a truncated one takes the place of two.
func TestRingForgetsTheOldest(t *testing.T) {
	r := newRecorder(Config{Size: 4, NSteps: 2, Gamma: 0.5})
	r.step("", "", "", "", "", "")
	want := []row{{3, 1, 30 + 20, 0.25, 5, both}, {4, 0, 40 + 25, 0.25, 6, both}, {5, 1, 50 + 30, 0.25, 7, both}, {6, 0, 60, 0.5, 7, both}}
	if diff := cmp.Diff(want, r.rows()); diff != "" {
		t.Errorf("after 6 steps (-want +got):\n%s", diff)
	}
	r.step("L")
	want = []row{{5, 1, 50 + 30, 0.25, 7, both}, {6, 0, 60 + 35, 0.25, -7, both}, {7, 1, 70, 0.5, -7, both}}
	if diff := cmp.Diff(want, r.rows()); diff != "" {
		t.Errorf("after a truncated step (-want +got):\n%s", diff)
	}
	r.step("", "", "", "")
	if got, all := r.b.Len(), r.rows(); got != 4 || len(all) != 4 || all[0].Obs != 8 {
		t.Errorf("Len() = %d with %v, want the 4 transitions from observation 8", got, all)
	}
}

// TestResetByOthers jumps to another observation in the middle of an episode: the transition
// before leads to what was seen there.
func TestResetByOthers(t *testing.T) {
	r := newRecorder(Config{Size: 100, NSteps: 3, Gamma: 0.5})
	r.step("", "")
	r.k = 50
	r.step("", "T")
	want := []row{{1, 1, 10 + 10, 0.25, 3, both}, {2, 0, 20, 0.5, 3, both}, {50, 0, 500 + 255, 0, 0, [2]bool{}}, {51, 1, 510, 0, 0, [2]bool{}}}
	if diff := cmp.Diff(want, r.rows()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.k = 90 // after an episode's end there is nothing to cut
	r.step("")
	if got, all := r.b.Len(), r.rows(); got != 5 || all[4].Obs != 90 {
		t.Errorf("Len() = %d with %v, want 5, the last from observation 90", got, all)
	}
}

// TestUniform draws from two environments of which one has half its slots taken by final
// observations: each transition is equally likely.
func TestUniform(t *testing.T) {
	b := New(Config{Size: 20, NumEnvs: 2, ObsSize: 1, NSteps: 1, Gamma: 1})
	for k := range 7 {
		o := float32(10 * k)
		b.Add([]float32{o, o + 1}, nil, []float32{0, 0}, &envs.Batch{
			Obs: []float32{o + 10, o + 11}, FinalObs: []float32{-1, -1}, Reward: []float64{0, 0},
			Terminated: []bool{false, false}, Truncated: []bool{false, true},
		})
	}
	// Environment 1 holds 5 truncated transitions in its 11 slots: 20 to 60; environment 0 all 7.
	count, rng, out := map[float32]int{}, rand.New(rand.NewPCG(1, 2)), b.NewBatch(10)
	const draws = 12_000
	for range draws / 10 {
		b.Sample(rng, 0, out)
		for i, o := range out.Obs {
			count[o]++
			if out.Weight[i] != 1 {
				t.Fatalf("weight %v, want 1", out.Weight[i])
			}
		}
	}
	if b.Len() != 12 || len(count) != 12 {
		t.Fatalf("Len() = %d and %d different transitions were drawn, want 12", b.Len(), len(count))
	}
	for o, n := range count { // 1000 with a standard deviation of √(12000·1/12·11/12) = 30
		if n < 1000-130 || n > 1000+130 {
			t.Errorf("observation %v was drawn %d times of %d, want 1000 ± 130", o, n, draws)
		}
	}
}

// TestPriorities gives four transitions the priorities 1, 2, 3 and 4 up to ε, with α = 2, so
// that their probabilities are 1/30, 4/30, 9/30 and 16/30. With β = 1/2 the weights are
// (4·P)^-1/2 over the greatest, that of the first: 1, 1/2, 1/3, 1/4.
func TestPriorities(t *testing.T) {
	r := newRecorder(Config{Size: 8, NSteps: 1, Gamma: 1, Prioritized: true, Alpha: 2, Eps: 1e-9})
	r.step("", "", "", "")
	all := r.b.NewBatch(4)
	copy(all.slot, []int{0, 1, 2, 3})
	r.b.SetPriorities(all, []float64{-1, 2, -3, 4})
	count, rng, out := [5]int{}, rand.New(rand.NewPCG(1, 2)), r.b.NewBatch(60)
	const batches = 100
	for range batches {
		r.b.Sample(rng, 0.5, out)
		for i, o := range out.Obs {
			count[int(o)]++
			if want := 1 / float64(o); math.Abs(out.Weight[i]-want) > 1e-6 {
				t.Fatalf("weight of transition %v is %v, want %v", o, out.Weight[i], want)
			}
		}
	}
	// Parts of 1/60 end where those of the transitions do: each batch has exactly its share.
	if want := [5]int{0, 2 * batches, 8 * batches, 18 * batches, 32 * batches}; count != want {
		t.Errorf("drawn %v times, want %v", count, want)
	}
	// A new transition has the highest priority so far: 16 of 46.
	r.step("")
	if got := r.b.tree.at(4) / r.b.tree.total(); math.Abs(got-16./46) > 1e-6 {
		t.Errorf("probability of a new transition is %v, want 16/46", got)
	}
	r.step("", "", "", "") // forgets the first
	if got := r.b.tree.at(0); got != 0 {
		t.Errorf("priority of the open slot is %v, want 0", got)
	}
}

func TestSumTree(t *testing.T) {
	tree := newSumTree(5)
	for i, p := range []float64{1, 0, 2, 3, 4} {
		tree.set(i, p)
	}
	if tree.total() != 10 {
		t.Fatalf("total = %v, want 10", tree.total())
	}
	for x, want := range map[float64]int{0: 0, 0.99: 0, 1: 2, 2.99: 2, 3: 3, 5.99: 3, 6: 4, 9.99: 4, 10: 4, 11: 4} {
		if got := tree.find(x); got != want {
			t.Errorf("find(%v) = %d, want %d", x, got, want)
		}
	}
	rebuilt := newSumTree(5)
	copy(rebuilt.leaves(), tree.leaves())
	rebuilt.rebuild()
	if diff := cmp.Diff(tree.nodes, rebuilt.nodes, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("rebuilt (-want +got):\n%s", diff)
	}
}

func TestNewPanics(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no environments": {Size: 1, ObsSize: 1, NSteps: 1},
		"size":            {Size: 1, NumEnvs: 2, ObsSize: 1, NSteps: 1},
		"n_steps":         {Size: 2, NumEnvs: 2, ObsSize: 1},
		"gamma":           {Size: 2, NumEnvs: 2, ObsSize: 1, NSteps: 1, Gamma: math.NaN()},
		"eps":             {Size: 2, NumEnvs: 2, ObsSize: 1, NSteps: 1, Prioritized: true},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			New(cfg)
		}()
	}
}

// step8 returns a buffer of 8 environments with observations of 81 numbers, and what it takes to
// add to it.
func step8(prioritized bool) (b *Buffer, add func()) {
	const n, size = 8, 81
	b = New(Config{Size: 10_000, NumEnvs: n, ObsSize: size, MaskSize: 65, NSteps: 3, Gamma: 0.99, Prioritized: prioritized, Alpha: 0.6, Eps: 1e-6})
	obs, mask, actions := make([]float32, n*size), make([]bool, n*65), make([]float32, n)
	next := &envs.Batch{
		Obs: obs, Mask: mask, FinalObs: obs, FinalMask: mask, Reward: make([]float64, n), Terminated: make([]bool, n), Truncated: make([]bool, n),
	}
	space.PermitAll(mask)
	k := 0
	return b, func() {
		next.Truncated[k%n] = k%50 == 0
		b.Add(obs, mask, actions, next)
		next.Truncated[k%n] = false
		k++
	}
}

func TestNoAllocations(t *testing.T) {
	for _, prioritized := range []bool{false, true} {
		b, add := step8(prioritized)
		out, td, rng := b.NewBatch(64), make([]float64, 64), rand.New(rand.NewPCG(1, 2))
		if got := testing.AllocsPerRun(100, func() {
			add()
			b.Sample(rng, 0.4, out)
			b.SetPriorities(out, td)
		}); got != 0 {
			t.Errorf("prioritized %v: %v allocations, want 0", prioritized, got)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	_, add := step8(true)
	b.ReportAllocs()
	for b.Loop() {
		add()
	}
}

func BenchmarkSample(b *testing.B) {
	for name, prioritized := range map[string]bool{"uniform": false, "prioritized": true} {
		b.Run(name, func(b *testing.B) {
			buf, add := step8(prioritized)
			for range 2000 {
				add()
			}
			out, td, rng := buf.NewBatch(64), make([]float64, 64), rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			for b.Loop() {
				buf.Sample(rng, 0.4, out)
				buf.SetPriorities(out, td)
			}
		})
	}
}
