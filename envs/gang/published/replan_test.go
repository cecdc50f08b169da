package published_test

import (
	"context"
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/published"
)

// TestReplanningsOnRecord: plans of one superstep that are made at every step are the policy
// static_1, whose totals without penalties are published.
func TestReplanningsOnRecord(t *testing.T) {
	data, err := published.ReadDataset(envstest.Data(t, "gang", gangtest.ProfileFile))
	if err != nil {
		t.Fatal(err)
	}
	for want, tr := range map[float64]*planner.Trace{46195.27997458069: data.Forecast, 41221.57927906762: data.Actual} {
		in, err := planner.NewInstance(context.Background(), data.Model, tr, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := 400 * in.Replannings(planner.Episode{Steps: 400, Penalty: 15}, 1)[0].Seconds[0]; math.Abs(got-want) > 1e-8*want {
			t.Errorf("%v s, want %v", got, want)
		}
	}
}
