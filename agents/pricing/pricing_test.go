package pricing_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/pricing"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	_ "github.com/kubernasium/kubernasium/envs/lra/placement"
	_ "github.com/kubernasium/kubernasium/envs/lra/pricing"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

// still acts by zeros: the prices of the mean values, which the baseline of that name sets too.
type still struct{ closed *int }

func (still) Act(_ *envs.Batch, actions []float32) error {
	clear(actions)
	return nil
}

func (s still) Close() error {
	*s.closed++
	return nil
}

func player(t *testing.T, closed *int) *pricing.Player {
	t.Helper()
	path := filepath.Join(t.TempDir(), "table.csv")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(files.WriteTable(f, throughput.GenerateTable(0)), f.Close()); err != nil {
		t.Fatal(err)
	}
	clock := time.Time{}
	return &pricing.Player{
		Table: path, Nodes: 4, Baselines: []string{"mean_values", "duals"}, Policies: []string{"a", "b"}, Seed: 1,
		Now: func() time.Time { // a millisecond passes between two readings
			clock = clock.Add(time.Millisecond)
			return clock
		},
		Open: func(string, *envs.Vec) (agents.Policy, io.Closer, error) { return still{}, still{closed}, nil },
	}
}

// TestBatches: policies that set the prices of the baseline reach what it does on each batch.
func TestBatches(t *testing.T) {
	closed := 0
	batches := []lra.Counts{{3, 3, 3, 3, 3, 3, 2}, {0, 0, 0, 0, 0, 0, 20}}
	all, err := player(t, &closed).Batches(t.Context(), batches, 20)
	if err != nil || len(all) != 4 || closed != 4 {
		t.Fatalf("%d scores, %d policies closed, %v; want two baselines and two policies, closed after each batch", len(all), closed, err)
	}
	for k, name := range []string{"mean_values", "duals", "a", "b"} {
		s := all[k]
		if s.Method != name || len(s.Throughput) != 2 {
			t.Errorf("%s reaches %v, want %s and two throughputs", s.Method, s.Throughput, name)
		}
		if equal := slices.Equal(s.Throughput, all[0].Throughput); equal != (name != "duals") {
			t.Errorf("%s reaches %v, equal to those of mean_values: %v", name, s.Throughput, equal)
		}
		if s.DecisionMicros < 49.99 || s.DecisionMicros > 50.01 { // a millisecond for 20 containers
			t.Errorf("%s: %v µs a decision, want 50", s.Method, s.DecisionMicros)
		}
	}
	if all[0].Throughput[0] <= 0 || all[0].Throughput[0] == all[0].Throughput[1] {
		t.Errorf("throughputs %v, want different ones of the two batches", all[0].Throughput)
	}
}

// TestOptions: with finish of all nodes the integer program fills them, whatever the prices of a baseline or policy.
func TestOptions(t *testing.T) {
	closed := 0
	p := player(t, &closed)
	p.Options = map[string]any{"finish": p.Nodes}
	all, err := p.Batches(t.Context(), []lra.Counts{{3, 3, 3, 3, 3, 3, 2}}, 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if !slices.Equal(s.Throughput, all[0].Throughput) {
			t.Errorf("%s reaches %v, %s %v: want the same", s.Method, s.Throughput, all[0].Method, all[0].Throughput)
		}
	}
	if _, err := p.Arrivals(t.Context(), 1, 10, 0.8); !errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("online arrivals with finish: %v, want %v", err, envs.ErrInvalidOption)
	}
}

func TestArrivals(t *testing.T) {
	closed := 0
	all, err := player(t, &closed).Arrivals(t.Context(), 2, 30, 0.8)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Method)
		if len(s.Throughput) != 2 {
			t.Errorf("%s has %d episodes, want 2", s.Method, len(s.Throughput))
		}
	}
	if want := []string{"greedy", "least_loaded", "mean_values", "duals", "a", "b"}; !slices.Equal(names, want) || closed != 2 {
		t.Errorf("methods %v, %d policies closed; want %v and 2", names, closed, want)
	}
}

// TestMean by hand.
func TestMean(t *testing.T) {
	got := pricing.Mean("mean", []pricing.Score{{"a", []float64{1, 2}, 10}, {"b", []float64{3, 6}, 30}})
	if got.Method != "mean" || !slices.Equal(got.Throughput, []float64{2, 4}) || got.DecisionMicros != 20 {
		t.Errorf("mean %+v, want 2 and 4 in 20 µs", got)
	}
}
