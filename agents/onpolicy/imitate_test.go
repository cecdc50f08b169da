package onpolicy

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/imitation"
	"github.com/kubernasium/kubernasium/envs/envcheck"
)

// watched returns what a Collector sees of five steps of Timing in two environments.
func watched(t *testing.T, length, limit int) *Demonstrated {
	t.Helper()
	const n = 2
	l := stubCollector(t, 8, agentstest.NewStub(2, prefersSecond), n)
	v, _ := agentstest.NewVec(t, envcheck.Timing(length, limit), n)
	teacher, err := baseline.New(v, baseline.RandomName, 1)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := l.actor.Watch(context.Background(), imitation.Demonstration{Envs: v, Teacher: teacher, Steps: 9, Epochs: 1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// TestReturnsOfDemonstrations watches Timing, whose step k is worth k, with γ = 1/2. What
// follows an end at observation o is worth 100·o, as the test says.
func TestReturnsOfDemonstrations(t *testing.T) {
	for _, tc := range []struct {
		name          string
		length, limit int
		ends          []float32 // observations of the ends of one environment
		want          []float32
	}{
		// 3 + ½·30, 2 + ½·18, 1 + ½·11; 2 + ½·20, 1 + ½·12.
		{"truncated after 3 steps", 100, 3, []float32{0.3, 0.2}, []float32{6.5, 11, 18, 7, 12}},
		// 3, 2 + ½·3, 1 + ½·3.5.
		{"terminated after 3 steps", 3, 0, []float32{0.2}, []float32{2.75, 3.5, 3, 7, 12}},
		// 5 + ½·50, 4 + ½·30, 3 + ½·19, 2 + ½·12.5, 1 + ½·8.25.
		{"no end", 100, 0, []float32{0.5}, []float32{5.125, 8.25, 12.5, 19, 30}},
		// Nothing follows 5; 4 + ½·5, 3 + ½·6.5, 2 + ½·6.25, 1 + ½·5.125.
		{"terminated in the last step", 5, 0, nil, []float32{3.5625, 5.125, 6.25, 6.5, 5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := watched(t, tc.length, tc.limit)
			var value []float32
			var ends [2][]float32
			for _, e := range rec.Ends {
				value = append(value, 100*e.Obs[0])
				ends[e.Row%2] = append(ends[e.Row%2], e.Obs[0])
			}
			for env := range 2 {
				if diff := cmp.Diff(tc.ends, ends[env], cmpopts.EquateApprox(1e-6, 0)); diff != "" {
					t.Errorf("ends of environment %d (-want +got):\n%s", env, diff)
				}
			}
			rec.Returns(0.5, value)
			for row, got := range rec.Ret {
				if want := tc.want[row/2]; got-want > 1e-5 || want-got > 1e-5 {
					t.Errorf("return of step %d is %v, want %v", row/2, got, want)
				}
			}
		})
	}
}
