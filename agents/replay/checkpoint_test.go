package replay

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// through writes the buffer to a file and reads the file back.
func through(t *testing.T, b *Buffer) models.File {
	t.Helper()
	f := models.File{Meta: models.Checkpoint{Spec: models.ActorCritic(1, 1, nil, "")}}
	b.Save(&f)
	var buf bytes.Buffer
	if err := models.Write(&buf, f); err != nil {
		t.Fatal(err)
	}
	f, err := models.Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestSaveLoad breaks off after each number of steps, from none to three times round the ring,
// and then continues with the same steps and draws in the buffer and its copy.
func TestSaveLoad(t *testing.T) {
	ends := []string{"", "L", "", "", "T", "", "TL", "L", "", ""}
	for _, prioritized := range []bool{false, true} {
		for steps := range 20 {
			r := newRecorder(Config{Size: 6, NSteps: 2, Gamma: 0.5, Prioritized: prioritized, Alpha: 0.6, Eps: 0.1})
			out, rng := r.b.NewBatch(5), rand.New(rand.NewPCG(1, 2))
			draw := func(b *Buffer, rng *rand.Rand) *Batch {
				out := b.NewBatch(5)
				b.Sample(rng, 0.5, out)
				b.SetPriorities(out, []float64{1, 2, 0.5, 3, 0})
				return out
			}
			for k := range steps {
				r.step(ends[k%len(ends)])
				r.b.Sample(rng, 0.5, out)
				r.b.SetPriorities(out, []float64{1, 2, 0.5, 3, 0})
			}
			loaded, err := r.b.Load(through(t, r.b))
			if err != nil {
				t.Fatalf("after %d steps: %v", steps, err)
			}
			if loaded.Len() != r.b.Len() {
				t.Fatalf("after %d steps: Len() = %d, want %d", steps, loaded.Len(), r.b.Len())
			}
			for k := range 10 {
				copied := &recorder{b: loaded, k: r.k, mask: r.mask}
				r.step(ends[(steps+k)%len(ends)])
				copied.step(ends[(steps+k)%len(ends)])
				seed := rand.NewPCG(uint64(k), 7)
				again := *seed
				want, got := draw(r.b, rand.New(seed)), draw(loaded, rand.New(&again))
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(Batch{})); diff != "" {
					t.Fatalf("prioritized %v, %d steps and %d more (-saved +loaded):\n%s", prioritized, steps, k+1, diff)
				}
			}
		}
	}
}

func TestSavedSize(t *testing.T) {
	r := newRecorder(Config{Size: 1000, NSteps: 1, Gamma: 1})
	if Saved(models.File{}) {
		t.Error("Saved of an empty file")
	}
	r.step("", "L")
	f := through(t, r.b)
	if !Saved(f) {
		t.Error("Saved of a file with a buffer is false")
	}
	obs, err := f.Tensor("state.replay.obs")
	if err != nil {
		t.Fatal(err)
	}
	// Two transitions, the final observation and the open slot.
	if want := []int{1, 4, 1}; !slices.Equal(obs.Shape, want) {
		t.Errorf("observations have shape %v, want %v", obs.Shape, want)
	}
}

func TestLoadRefuses(t *testing.T) {
	cfg := Config{Size: 10, NSteps: 1, Gamma: 1, Prioritized: true, Alpha: 0.6, Eps: 0.1}
	r := newRecorder(cfg)
	r.step("", "T", "L", "") // slots: step, terminated, truncated, final, step, open
	f := through(t, r.b)
	for _, tensor := range f.Tensors {
		missing := models.File{Tensors: slices.DeleteFunc(slices.Clone(f.Tensors), func(t safetensors.Tensor) bool { return t.Name == tensor.Name })}
		if _, err := r.b.Load(missing); !errors.Is(err, models.ErrMismatch) {
			t.Errorf("without %s: error %v, want %v", tensor.Name, err, models.ErrMismatch)
		}
	}
	nan := float32(math.NaN())
	for _, tc := range []struct {
		name string
		data any // in place of the tensor's
	}{
		{"head", []int64{-1}}, {"head", []int64{6}}, {"head", []int64{4}}, {"head", []float32{5}}, {"head", []int64{5, 5}},
		{"size", []int64{4}}, {"size", []int64{6}}, {"size", []int64{10}}, {"size", []int64{11}}, {"size", []int64{math.MaxInt64}},
		{"kind", []uint8{1, 2, 3, 5, 1, 1}}, {"kind", []uint8{1, 2, 3, 5, 0, 0}}, {"kind", []uint8{1, 9, 3, 5, 1, 0}},
		{"mask", []uint8{1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}},
		{"action", []float32{0, 2, 0, 0, 0, 0}}, {"action", []float32{0, -1, 0, 0, 0, 0}}, {"action", []float32{0, nan, 0, 0, 0, 0}},
		{"reward", []float32{0, nan, 0, 0, 0, 0}},
		{"priority", []float64{1, 1, 1, 1, 1, 0}}, {"priority", []float64{1, -1, 1, 0, 1, 0}},
		{"priority", []float64{1, math.NaN(), 1, 0, 1, 0}}, {"priority", []float64{1, 0, 1, 0, 1, 0}},
		{"highest", []float64{0}}, {"highest", []float64{math.Inf(1)}},
	} {
		changed := models.File{Tensors: slices.Clone(f.Tensors)}
		for i := range changed.Tensors {
			if changed.Tensors[i].Name == "state.replay."+tc.name {
				changed.Tensors[i].Data = tc.data
			}
		}
		before := fmt.Sprintf("%+v", r.b)
		if _, err := r.b.Load(changed); !errors.Is(err, models.ErrMismatch) {
			t.Errorf("%s %v: error %v, want %v", tc.name, tc.data, err, models.ErrMismatch)
		}
		if fmt.Sprintf("%+v", r.b) != before {
			t.Errorf("%s %v: the buffer has changed", tc.name, tc.data)
		}
	}
	cfg.Size = 3 // fewer slots than were used
	if _, err := newRecorder(cfg).b.Load(f); !errors.Is(err, models.ErrMismatch) {
		t.Errorf("smaller buffer: error %v, want %v", err, models.ErrMismatch)
	}
}
