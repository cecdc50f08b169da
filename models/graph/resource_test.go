package graph

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/kubernasium/kubernasium/models/internal/oracle"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
)

// train returns the bits of the parameters after steps updates of alternating batch sizes.
func train(t testing.TB, spec models.Spec, steps int) []uint32 {
	t.Helper()
	net := newNetwork(t, spec, 1)
	adam := optim.NewAdam(net.Params(), optim.DefaultAdam())
	rng := rand.New(rand.NewPCG(2, 3))
	for k := range steps {
		n := 1 + 30*(k%3)
		obs := make([]float32, n*spec.Inputs)
		oracle.Fill(obs, rng)
		out, err := net.Forward(obs, n)
		if err != nil {
			t.Error(err)
			return nil
		}
		if err := net.Backward(slices.Clone(out)); err != nil {
			t.Error(err)
			return nil
		}
		optim.ClipGradNorm(net.Params(), 0.5)
		adam.Step(1e-3)
	}
	var bits []uint32
	for _, p := range net.Params() {
		for _, v := range p.Value {
			bits = append(bits, math.Float32bits(v))
		}
	}
	return bits
}

// Equal seeds give equal bits, one run after another and at the same time.
func TestSameBits(t *testing.T) {
	spec := models.ActorCritic(13, 5, []int{70, 33}, models.Tanh)
	want := train(t, spec, 30)
	got := make([][]uint32, 4)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = train(t, spec, 30) })
	}
	wg.Wait()
	for i := range got {
		if !slices.Equal(got[i], want) {
			t.Errorf("run %d differs", i)
		}
	}
}

func TestEviction(t *testing.T) {
	spec := models.ActorCritic(2, 2, []int{3}, models.Tanh)
	net := newNetwork(t, spec, 1)
	forward := func(n int) float32 {
		t.Helper()
		obs := make([]float32, 2*n)
		obs[0], obs[1] = 1, -2
		out, err := net.Forward(obs, n)
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	sizes := func() (s []int) {
		for _, b := range net.batches {
			s = append(s, b.rows)
		}
		return s
	}
	want := forward(1)
	for n := 1; n <= MaxBatchSizes; n++ {
		forward(n)
	}
	forward(1) // 2 is now the least recently used
	forward(MaxBatchSizes + 1)
	got := sizes()
	if len(got) != MaxBatchSizes || got[0] != MaxBatchSizes+1 || got[1] != 1 || slices.Contains(got, 2) {
		t.Errorf("batch sizes kept are %v", got)
	}
	if forward(2) != want || forward(1) != want {
		t.Error("outputs differ after eviction")
	}
	if err := net.Close(); err != nil {
		t.Fatal(err)
	}
	if err := net.Backward(make([]float32, 3)); !errors.Is(err, ErrBatch) {
		t.Errorf("Backward after Close: %v, want %v", err, ErrBatch)
	}
	if forward(1) != want {
		t.Error("output differs after Close")
	}
}

// The heap does not grow with updates, nor with ever new batch sizes.
func TestMemory(t *testing.T) {
	spec := models.ActorCritic(8, 3, []int{16, 16}, models.Tanh)
	net := newNetwork(t, spec, 1)
	adam := optim.NewAdam(net.Params(), optim.DefaultAdam())
	update := func(n int) {
		t.Helper()
		out, err := net.Forward(oracle.Normal(n*spec.Inputs, 4), n)
		if err != nil {
			t.Fatal(err)
		}
		if err := net.Backward(out); err != nil {
			t.Fatal(err)
		}
		adam.Step(1e-3)
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const mib = 1 << 20 // of which 2000 updates would leave 500 bytes each
	for range 100 {
		update(16)
	}
	before := heap()
	for range 2000 {
		update(16)
	}
	if grown := heap() - before; grown > mib {
		t.Errorf("2000 updates left %d bytes", grown)
	}
	for n := range 3 * MaxBatchSizes {
		update(n + 1)
	}
	before = heap()
	for k := range 6 * MaxBatchSizes {
		update(k%(3*MaxBatchSizes) + 1)
	}
	if grown := heap() - before; grown > mib {
		t.Errorf("%d compilations left %d bytes", 6*MaxBatchSizes, grown)
	}
}

func TestWriteRead(t *testing.T) {
	spec := models.ActorCritic(5, 3, []int{7, 6}, models.Tanh)
	from, to := newNetwork(t, spec, 1), newNetwork(t, spec, 2)
	var buf bytes.Buffer
	written, err := from.WriteTo(&buf)
	if err != nil || written != int64(buf.Len()) {
		t.Fatalf("WriteTo = %d, %v, wrote %d bytes", written, err, buf.Len())
	}
	file := buf.Bytes()
	read, err := to.ReadFrom(bytes.NewReader(file))
	if err != nil || read != written {
		t.Fatalf("ReadFrom = %d, %v, want %d", read, err, written)
	}
	if !slices.Equal(oracle.Flat(from.Params()), oracle.Flat(to.Params())) {
		t.Error("parameters differ")
	}
	obs := oracle.Normal(5, 3)
	a, errA := from.Forward(obs, 1)
	b, errB := to.Forward(obs, 1)
	if errA != nil || errB != nil || !slices.Equal(a, b) {
		t.Errorf("outputs %v, %v and %v, %v", a, errA, b, errB)
	}
	for _, hidden := range [][]int{{7}, {7, 6, 6}, {7, 5}} {
		other := newNetwork(t, models.ActorCritic(5, 3, hidden, models.Tanh), 4)
		before := oracle.Flat(other.Params())
		if _, err := other.ReadFrom(bytes.NewReader(file)); !errors.Is(err, models.ErrMismatch) {
			t.Errorf("hidden %v reads the file: %v, want %v", hidden, err, models.ErrMismatch)
		}
		if !slices.Equal(before, oracle.Flat(other.Params())) {
			t.Errorf("hidden %v: a refused file changed parameters", hidden)
		}
	}
}
