package normalize

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// step is the output of VecNormalize of Stable-Baselines3 2.9 (gamma 0.9, clip_obs 1.5,
// clip_reward 2) for two environments k = 0, 1 with the observations (3k+t², t−2k) and the
// rewards t·(1+k) at step t of episodes of three steps.
type step struct {
	obs    []float32
	reward []float64
	done   bool
}

var recorded = []step{
	{[]float32{-0.9999389052391052, 0.9999250173568726, 1.0000388622283936, -1.0000250339508057}, nil, false},
	{[]float32{-0.6324160099029541, 1.3416296243667603, 1.2649269104003906, -0.44722476601600647}, []float64{1.99940025806427, 2.0}, false},
	{[]float32{0.3676270842552185, 1.5, 1.5, 0}, []float64{1.116807222366333, 2.0}, false},
	{[]float32{-1.2375755310058594, 0.19244812428951263, 0.11252374202013016, -1.3471561670303345}, []float64{0.8862486481666565, 1.772497296333313}, true},
	{[]float32{-0.8095073699951172, 0.9607689380645752, 0.6190577745437622, -0.6405152678489685}, []float64{0.30652740597724915, 0.6130548119544983}, false},
	{[]float32{0.3676171898841858, 1.5, 1.5, 0}, []float64{0.6680933237075806, 1.3361866474151611}, false},
}

var two = models.Spec{Inputs: 2}

var settings = Normalization{NormObs: true, NormReward: true, ClipObs: 1.5, ClipReward: 2}

func raw(t float32) []float32 { return []float32{t * t, t, 3 + t*t, t - 2} }

// play takes steps from … to … of the recording into account and calls check after each.
func play(z *Normalizer, from, to int, check func(k int, obs []float32, reward []float64)) {
	for k := from; k < to; k++ {
		obs, reward := raw(float32(k%3)), []float64(nil)
		if k == 0 {
			z.Start(obs)
		} else {
			t := float64((k-1)%3 + 1)
			reward = []float64{t, 2 * t}
			done := []bool{recorded[k].done, recorded[k].done}
			z.Seen(obs, reward, done, make([]bool, 2))
		}
		got := make([]float32, 4)
		z.Obs(got, obs)
		check(k, got, reward)
	}
}

func TestAsVecNormalize(t *testing.T) {
	z := New(settings, two, 2, 0.9)
	play(z, 0, len(recorded), func(k int, obs []float32, reward []float64) {
		if diff := cmp.Diff(recorded[k].obs, obs, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
			t.Errorf("observations of step %d (-want +got):\n%s", k, diff)
		}
		if diff := cmp.Diff(recorded[k].reward, reward, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
			t.Errorf("rewards of step %d (-want +got):\n%s", k, diff)
		}
	})
	if got, want := z.ret.variance[0], 8.961603227639287; math.Abs(got-want) > 1e-9 {
		t.Errorf("variance of the returns %v, want %v", got, want)
	}
	if diff := cmp.Diff([]float64{5.138937961857655, 1.6666611111574068}, z.obs.variance, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("variance of the observations (-want +got):\n%s", diff)
	}
}

// TestLoadResumes saves after three steps and continues with the copy.
func TestLoadResumes(t *testing.T) {
	whole, z := New(settings, two, 2, 0.9), New(settings, two, 2, 0.9)
	ignore := func(int, []float32, []float64) {}
	play(whole, 0, 6, ignore)
	play(z, 0, 3, ignore)
	copied, err := Load(saved(t, z), two, 2, 0.9)
	if err != nil {
		t.Fatal(err)
	}
	copied.Start([]float32{9, 9, 9, 9}) // has begun long ago
	play(copied, 3, 6, ignore)
	if diff := cmp.Diff(whole, copied, cmp.AllowUnexported(Normalizer{}, moments{})); diff != "" {
		t.Errorf("statistics (-uninterrupted +resumed):\n%s", diff)
	}
}

func TestNothingToNormalize(t *testing.T) {
	z := New(Defaults(), two, 2, 0.9)
	obs, reward, got := []float32{1, 2, 300, -4}, []float64{50, -60}, make([]float32, 4)
	z.Start(obs)
	z.Seen(obs, reward, make([]bool, 2), make([]bool, 2))
	z.Obs(got, obs)
	if diff := cmp.Diff(obs, got); diff != "" {
		t.Errorf("observations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float64{50, -60}, reward); diff != "" {
		t.Errorf("rewards (-want +got):\n%s", diff)
	}
	f := saved(t, z)
	if len(f.Tensors) != 0 {
		t.Errorf("%d tensors in the checkpoint, want 0", len(f.Tensors))
	}
	if z, err := Load(f, two, 2, 0.9); err != nil || z.Active() {
		t.Errorf("Load gives %+v, %v", z, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, change := range map[string]func(f *models.File){
		"settings":     func(f *models.File) { f.Meta.Metadata[metadataKey] = "{" },
		"size":         func(f *models.File) { f.Tensors[0].Shape, f.Tensors[0].Data = []int{1}, []float64{1} },
		"type":         func(f *models.File) { f.Tensors[0].Data = []float32{1, 2} },
		"not a number": func(f *models.File) { f.Tensors[1].Data = []float64{1, math.NaN()} },
		"variance":     func(f *models.File) { set(f, obsVar, 1, -1) },
		"return":       func(f *models.File) { set(f, retVar, -1e-8) },
		"count":        func(f *models.File) { set(f, counts, -1, 1) },
		"bound":        func(f *models.File) { f.Meta.Metadata[metadataKey] = `{"norm_obs":true,"clip_obs":-5}` },
		"missing":      func(f *models.File) { f.Tensors = f.Tensors[1:] },
	} {
		f := saved(t, New(settings, two, 2, 0.9))
		change(&f)
		if _, err := Load(f, two, 2, 0.9); !errors.Is(err, models.ErrMismatch) {
			t.Errorf("%s: error %v, want one that wraps %v", name, err, models.ErrMismatch)
		}
	}
}

// TestLoadOfRoundedVariance: kubernasium.save_native computes a variance from the deviation of a model that load_sb3 read.
// That of a constant number may be a little below 0.
func TestLoadOfRoundedVariance(t *testing.T) {
	f := saved(t, New(settings, two, 2, 0.9))
	set(&f, obsVar, 1, -1e-24)
	if _, err := Load(f, two, 2, 0.9); err != nil {
		t.Error(err)
	}
}

// set sets the numbers of a tensor.
func set(f *models.File, name string, x ...float64) {
	for i := range f.Tensors {
		if f.Tensors[i].Name == name {
			f.Tensors[i].Data = x
		}
	}
}

func TestValidate(t *testing.T) {
	for _, bad := range []Normalization{{NormObs: true}, {NormReward: true, ClipReward: -1}} {
		if err := bad.Validate(); err == nil {
			t.Errorf("Validate(%+v) gives no error", bad)
		}
	}
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
}

// saved returns z as a file holds it.
func saved(t *testing.T, z *Normalizer) models.File {
	t.Helper()
	f := models.File{Meta: models.Checkpoint{Algo: "test", Spec: models.Spec{Inputs: 2, Towers: []models.Tower{{Name: "t"}}, Heads: []models.Head{{Name: "h", Size: 1, Gain: 1}}}}}
	if err := z.Save(&f); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := models.Write(&buf, f); err != nil {
		t.Fatal(err)
	}
	read, err := models.Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	for i := range read.Tensors { // in the form that the test changes
		if x, err := safetensors.As[float64](read.Tensors[i]); err == nil {
			read.Tensors[i].Data = x
		}
	}
	return read
}

// TestNodesShareStatistics: two nodes of two features, one global number and one edge. The first
// feature is 1, 3, 5, 7 over both nodes of two rows: mean 4, variance 5. The second is 0, 0, 2,
// 2: mean 1, variance 1. The global number is 10 and 30: mean 20, variance 100.
func TestNodesShareStatistics(t *testing.T) {
	edges := models.Edges{Offset: 5, N: 1}
	spec := models.Spec{Inputs: 7, Nodes: &models.Nodes{N: 2, Features: 2, Edges: &edges}}
	z := New(Normalization{NormObs: true, ClipObs: 10}, spec, 1, 0.9)
	z.obs.count = 1e-12 // the statistics of nothing weigh 1e-4 otherwise
	obs := []float32{1, 0, 3, 0, 10, 0, 1, 5, 2, 7, 2, 30, 1, 0}
	z.Start(obs)
	got := make([]float32, len(obs))
	z.Obs(got, obs)
	r5 := float32(math.Sqrt(5))
	want := []float32{-3 / r5, -1, -1 / r5, -1, -1, 0, 1, 1 / r5, 1, 3 / r5, 1, 1, 1, 0}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-6, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The same statistics for three nodes and two edges.
	larger := models.Spec{Inputs: 11, Nodes: &models.Nodes{N: 3, Features: 2, Edges: &models.Edges{Offset: 7, N: 2}}}
	z, err := Load(saved(t, z), larger, 1, 0.9)
	if err != nil {
		t.Fatal(err)
	}
	got = make([]float32, 11)
	z.Obs(got, []float32{4, 1, 4, 2, 4, 1, 20, 0, 1, 1, 2})
	if diff := cmp.Diff([]float32{0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 2}, got, cmpopts.EquateApprox(1e-6, 1e-6)); diff != "" {
		t.Errorf("three nodes (-want +got):\n%s", diff)
	}
}
