package published_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/published"
)

// defaultCompatible has the defaults of Compatible's fields.
var defaultCompatible = published.Compatible{Actions: 4, Columns: 6, Low: 75, High: 150, Penalty: planner.DefaultPenalty, First: 200, Steps: 400}

func compatibleInstance(tb testing.TB) (*published.Dataset, *planner.Instance) {
	tb.Helper()
	data, err := published.ReadDataset(envstest.Data(tb, "gang", gangtest.ProfileFile))
	if err != nil {
		tb.Fatal(err)
	}
	in, err := planner.NewInstance(context.Background(), data.Model, data.Forecast, 3, 6)
	if err != nil {
		tb.Fatal(err)
	}
	return data, in
}

func TestReferenceRollout(t *testing.T) {
	_, in := compatibleInstance(t)
	c := defaultCompatible
	if err := c.Validate(in); err != nil {
		t.Fatal(err)
	}
	rows := gangtest.Reference(t, envstest.Data(t, "gang", gangtest.ProfileFile), "env_rollout.csv")
	if len(rows) != 60 {
		t.Errorf("%d steps, want 60", len(rows))
	}
	levels := make([]uint16, in.Trace().Tasks)
	obs, obs32 := make([]float64, 24), make([]float32, 24)
	for i, row := range rows {
		step := c.First + i
		published.ObserveCompatible(&c, in, step, levels, obs)
		published.ObserveCompatible(&c, in, step, levels, obs32)
		for j, got := range obs {
			want := gangtest.Number(t, row, fmt.Sprintf("obs_%d_%d", j/6, j%6))
			if math.Abs(got-want) > 1e-8 || obs32[j] != float32(got) {
				t.Errorf("step %d: observation %d = %v and %v, want %v", step, j, got, obs32[j], want)
			}
		}
		duration, reward := c.Step(in, step, levels, int(gangtest.Number(t, row, "action")))
		if math.Abs(duration-gangtest.Number(t, row, "duration_s")) > 1e-7 || math.Abs(reward-gangtest.Number(t, row, "reward")) > 1e-9 {
			t.Errorf("step %d: duration %v, reward %v, want %s, %s", step, duration, reward, row["duration_s"], row["reward"])
		}
	}
}

// Reference values of steps 200 … 599, given with three or eight decimals; see
// TestReferenceSteps for the tolerance.
func TestReferenceReturns(t *testing.T) {
	_, in := compatibleInstance(t)
	c := defaultCompatible
	levels := make([]uint16, in.Trace().Tasks)
	for _, test := range []struct {
		name      string
		action    func(i int) int
		want, tol float64
	}{
		{"always 0", func(int) int { return 0 }, -3012.561, 5e-4},
		{"always 1", func(int) int { return 1 }, 88.62062271, 1e-7},
		{"always 2", func(int) int { return 2 }, 88.78262917, 1e-7},
		{"always 3", func(int) int { return 3 }, 85.01833910, 1e-7},
		{"2 at even steps", func(i int) int { return 2 * (1 - i%2) }, 120.23866397, 1e-7},
	} {
		clear(levels)
		total := 0.0
		for i := range c.Steps {
			_, reward := c.Step(in, c.First+i, levels, test.action(i))
			total += reward
		}
		if math.Abs(total-test.want) > test.tol {
			t.Errorf("%s: return %v, want %v", test.name, total, test.want)
		}
	}
}

// Controllers on the steps of the environment, whose first reconfiguration is charged;
// reference values of two decimals.
func TestReferenceControllersInEpisode(t *testing.T) {
	_, in := compatibleInstance(t)
	ep := planner.Episode{First: 200, Steps: 400, Penalty: 15, ChargeFirst: true}
	static := gangtest.Simulate(t, planner.Config{Controller: planner.ControllerStatic, Window: 2}, in, ep)
	if math.Abs(static.Total-50982.10) > 0.005 || static.Checkpoints != 200 {
		t.Errorf("static 2: total %v, %d checkpoints, want 50982.10, 200", static.Total, static.Checkpoints)
	}
	if testing.Short() {
		return
	}
	mpc := gangtest.Simulate(t, planner.Config{Controller: planner.ControllerDynamicMPC, Window: 10, Lambda: 1.02}, in, ep)
	if math.Abs(mpc.Duration-47721.74) > 0.005 || mpc.Checkpoints != 185 || math.Abs(mpc.Total-50496.74) > 0.005 {
		t.Errorf("dynamic MPC: %v, %d, %v, want 47721.74, 185, 50496.74", mpc.Duration, mpc.Checkpoints, mpc.Total)
	}
}

// One task at the law's size takes what the hand model says, so that the numbers of an
// observation and a reward can be worked out.
func TestCompatibleByHand(t *testing.T) {
	tr := &planner.Trace{Steps: 3, Columns: 2, Tasks: 2}
	for range tr.Steps {
		tr.Planned = append(tr.Planned, 10, 10, 10, 30)
		tr.True = append(tr.True, 10, 20)
	}
	in, err := planner.NewInstance(context.Background(), gangtest.HandModel(t), tr, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	c := published.Compatible{Actions: 3, Columns: 2, Low: 50, High: 100, Penalty: 15, Steps: 2}
	if err := c.Validate(in); err != nil {
		t.Fatal(err)
	}
	levels, obs := make([]uint16, 2), make([]float64, 6)
	published.ObserveCompatible(&c, in, 0, levels, obs)
	// Row 0: 80 and 150 s with one core each. Row 1: levels (2, 1), so 40 and 120 s.
	// Row 2: levels (0, 3), so 80 and 80 s.
	for i, want := range []float64{0.6, 2, -0.2, 1.4, 0.6, 0.6} {
		if math.Abs(obs[i]-want) > 1e-9 {
			t.Errorf("observation %d = %v, want %v", i, obs[i], want)
		}
	}
	// Action 1: a 10·(10−2·3) = 40, b 20·(6−2) = 80 s; (100 − 15 − 80) / 50 = 0.1.
	if d, r := c.Step(in, 0, levels, 1); math.Abs(d-80) > 1e-9 || math.Abs(r-0.1) > 1e-9 {
		t.Errorf("Step = %v, %v, want 80, 0.1", d, r)
	}
	if d, r := c.Step(in, 1, levels, 0); math.Abs(d-80) > 1e-9 || math.Abs(r-0.4) > 1e-9 {
		t.Errorf("Step = %v, %v, want 80, 0.4", d, r)
	}
}

func TestCompatibleValidate(t *testing.T) {
	in := gangtest.LawInstance(t, 1, 20, 4, 3, true)
	ok := published.Compatible{Actions: 4, Columns: 4, Low: 75, High: 150, Steps: 19}
	if err := ok.Validate(in); err != nil {
		t.Error(err)
	}
	for _, test := range []struct {
		change func(*published.Compatible)
		want   string
	}{
		{func(c *published.Compatible) { c.Actions = 5 }, "gang: 5 actions, want 1 to 4 for an instance with 3 windows"},
		{func(c *published.Compatible) { c.Columns = 5 }, "gang: 5 columns, want 1 to the instance's 4"},
		{func(c *published.Compatible) { c.Low = 150 }, "gang: High 150, want more than Low 150"},
		{func(c *published.Compatible) { c.Steps = 0 }, "gang: episode of 0 steps from 0, want 1 or more within the trace's 20"},
		{func(c *published.Compatible) { c.First = 1 }, "gang: episode of 19 steps from 1, want one that ends before the trace's 20"},
	} {
		c := ok
		test.change(&c)
		if err := c.Validate(in); err == nil || err.Error() != test.want {
			t.Errorf("Validate: error %v, want %s", err, test.want)
		}
	}
}
