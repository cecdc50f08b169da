package profile_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// TestDescribe compares the published profile with the table on record, rounded as there.
func TestDescribe(t *testing.T) {
	p, err := profile.Read(filepath.Join(envstest.Data(t, "gang", gangtest.ProfileFile), "profile", "workload_profiling.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range []struct {
		task                        string
		lowest, highest, mean, half float64 // seconds
		slower, faster              int
		rise, r2                    float64 // rise 0 where none is on record
	}{
		{"affinity", 10.925, 415.343, 74.687, 54.507, 59, 4, 0.30, 0.987},
		{"atomic", 15.297, 575.655, 119.435, 80.444, 30, 12, 0.135, 0.985},
		{"bsearch", 17.862, 1267.553, 176.153, 102.573, 0, 1, 0, 0.9986},
		{"cap", 11.687, 651.580, 86.341, 52.092, 21, 11, 0.447, 0.986},
		{"chmod", 13.079, 720.150, 87.698, 53.366, 44, 3, 0.168, 0.983},
		{"memcpy", 13.262, 508.409, 101.142, 70.635, 5, 0, 0.089, 0.9967},
		{"vecmath", 12.687, 863.809, 124.915, 71.288, 0, 0, 0, 0.9988},
		{"zero", 10.074, 762.265, 102.006, 58.212, 10, 0, 0.031, 0.9974},
	} {
		got := p.Describe(k)
		if got.Task != want.task || got.Slower != want.slower || got.Faster != want.faster || got.ShareSteps != 210 || got.SizeSteps != 208 {
			t.Errorf("%s: %d of %d steps of shares take longer, %d of %d of sizes less, want %d of 210 and %d of 208", got.Task, got.Slower, got.ShareSteps, got.Faster, got.SizeSteps, want.slower, want.faster)
		}
		for _, c := range []struct {
			name                 string
			got, want, tolerance float64
		}{
			{"minimum", got.Min, want.lowest, 0.0006}, {"maximum", got.Max, want.highest, 0.0006},
			{"mean", got.Mean, want.mean, 0.0006}, {"median", got.Median, want.half, 0.0006},
			{"worst rise", got.WorstRise, want.rise, 0.006}, {"R²", got.R2, want.r2, 0.0006},
		} {
			if math.Abs(c.got-c.want) > c.tolerance {
				t.Errorf("%s: %s %v, want %v", want.task, c.name, c.got, c.want)
			}
		}
	}
}

// TestDescribeWithoutALaw: of 5 s to 55 s on one core, on eight an eighth.
func TestDescribeWithoutALaw(t *testing.T) {
	p, err := profile.Parse("p.csv", strings.NewReader(gangtest.WithSizeZero()))
	if err != nil {
		t.Fatal(err)
	}
	want := profile.Description{Law: profile.Law{Task: "a"}, Min: 0.625, Max: 55, Mean: 11.71875, Median: 6.5625, ShareSteps: 12, SizeSteps: 12}
	if diff := cmp.Diff(want, p.Describe(0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
