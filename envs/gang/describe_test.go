package gang_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/gang"
)

// TestDescribe compares the published profile with the table on record, rounded as there.
func TestDescribe(t *testing.T) {
	p, err := gang.ReadProfile(filepath.Join(dataDir(t), "profile", "workload_profiling.csv"))
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

// withSizeZero is a profile of 16 points whose durations are (size+5)·1000/share, of which no power of
// the size is a law.
func withSizeZero() string {
	var b strings.Builder
	b.WriteString("Task Name,Workload Size,CPU Shares,Duration\n")
	for _, size := range []int{0, 10, 20, 50} {
		for _, share := range []int{1000, 2000, 4000, 8000} {
			fmt.Fprintf(&b, "a,%d,%d,%v\n", size, share, float64(size+5)*1000/float64(share))
		}
	}
	return b.String()
}

// TestDescribeWithoutALaw: of 5 s to 55 s on one core, on eight an eighth.
func TestDescribeWithoutALaw(t *testing.T) {
	p, err := gang.ParseProfile("p.csv", strings.NewReader(withSizeZero()))
	if err != nil {
		t.Fatal(err)
	}
	want := gang.TaskProfile{Law: gang.Law{Task: "a"}, Min: 0.625, Max: 55, Mean: 11.71875, Median: 6.5625, ShareSteps: 12, SizeSteps: 12}
	if diff := cmp.Diff(want, p.Describe(0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestReplanningsByHand: two tasks alternate between supersteps in which both have size 10 and those
// in which b has 30. Plans for one superstep are 3 and 2 cores, which take 40 s, and 1 and 4, which
// take 80 s. A superstep later the first takes 120 s, the second 80 s.
func TestReplanningsByHand(t *testing.T) {
	tr := &gang.Trace{Steps: 6, Columns: 1, Tasks: 2}
	for i := range tr.Steps {
		tr.True = append(tr.True, 10, 10+20*float64(i%2))
	}
	tr.Planned = tr.True
	in, err := gang.NewInstance(handModel(t), tr, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		penalty      float64
		interval     int
		perSuperstep float64
	}{
		{15, 1, 75},  // 15+60; (15+60+100)/2
		{40, 1, 100}, // 40+60; (40+60+100)/2, the same
		{60, 2, 110}, // 60+60; (60+60+100)/2
	} {
		all := in.Replannings(gang.Episode{First: 1, Steps: 5, Penalty: test.penalty}, 2)
		if len(all) != 1 || all[0].Window != 1 || len(all[0].Seconds) != 2 {
			t.Fatalf("%+v, want one window and two ages", all)
		}
		r := all[0]
		if math.Abs(r.Seconds[0]-60) > 1e-9 || math.Abs(r.Seconds[1]-100) > 1e-9 {
			t.Errorf("%v seconds by age, want 60 and 100", r.Seconds)
		}
		if r.Interval != test.interval || math.Abs(r.PerSuperstep-test.perSuperstep) > 1e-9 {
			t.Errorf("penalty %v: every %d supersteps, %v s each; want %d, %v s", test.penalty, r.Interval, r.PerSuperstep, test.interval, test.perSuperstep)
		}
	}
}

// TestReplanningsOnRecord: plans of one superstep that are made at every step are the policy
// static_1, whose totals without penalties are published.
func TestReplanningsOnRecord(t *testing.T) {
	data, err := gang.ReadDataset(dataDir(t))
	if err != nil {
		t.Fatal(err)
	}
	for want, tr := range map[float64]*gang.Trace{46195.27997458069: data.Forecast, 41221.57927906762: data.Actual} {
		in, err := gang.NewInstance(data.Model, tr, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := 400 * in.Replannings(gang.Episode{Steps: 400, Penalty: 15}, 1)[0].Seconds[0]; math.Abs(got-want) > 1e-8*want {
			t.Errorf("%v s, want %v", got, want)
		}
	}
}

// TestClipped: plans of the hand-worked episode are of 80 s throughout.
func TestClipped(t *testing.T) {
	for high, want := range map[float64]float64{70: 1, 80: 0} {
		v := open(t, 1, map[string]any{
			"data": handData(t), "split": "heldout", "forecaster": "persistence", "steps": 3, "duration_low": 50.0, "duration_high": high,
		})
		reset(t, v, 1)
		part, low, top := v.Env(0).Task().(*gang.Task).Clipped()
		if math.Abs(part-want) > 1e-9 || math.Abs(low-80) > 1e-9 || math.Abs(top-80) > 1e-9 {
			t.Errorf("duration_high %v: %v of durations between %v and %v s, want %v of 80 s", high, part, low, top, want)
		}
	}
}
