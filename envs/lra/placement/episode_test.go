package placement_test

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/lratest"
	"github.com/kubernasium/kubernasium/envs/lra/placement"
	"github.com/kubernasium/kubernasium/envs/space"
)

func open(tb testing.TB, id string, opts map[string]any) *envs.Vec {
	tb.Helper()
	return envstest.Open(tb, id, 1, envs.VecOptions{Options: opts, Autoreset: envs.SameStep})
}

var (
	reset = envstest.Reset
	step  = envstest.Step
)

// handFiles writes the data of the hand-worked episode of README.md: a container achieves
// 1 − 0.1·others, an MMS twice that where there is a Redis; a batch of one Redis and two MMS.
func handFiles(tb testing.TB) (table, batches string) {
	tb.Helper()
	t, err := lra.NewTable(func(s lra.State, app int) float64 {
		v := 1 - 0.1*float64(s.Total()-1)
		if app == 1 && s.Counts()[0] > 0 {
			v *= 2
		}
		return v
	})
	if err != nil {
		tb.Fatal(err)
	}
	table, batches = filepath.Join(tb.TempDir(), "table.csv"), filepath.Join(tb.TempDir(), "batches.csv")
	f, err := os.Create(table)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	if err := files.WriteTable(f, t); err != nil {
		tb.Fatal(err)
	}
	text := strings.Join(lra.Apps[:], ",") + "\n1,2,0,0,0,0,0\n"
	envstest.Write(tb, batches, text)
	return table, batches
}

// TestHandWorkedEpisode plays the episode of README.md, section "An episode by hand".
func TestHandWorkedEpisode(t *testing.T) {
	table, batches := handFiles(t)
	opts := map[string]any{"table": table, "batches": batches, "batch": 0, "nodes": 2}
	for _, tc := range []struct {
		reward string
		want   []float64
	}{
		{"dense", []float64{1. / 3, 1.7 / 3, 1. / 3}},
		{"terminal", []float64{0, 0, 3.7 / 3}},
	} {
		t.Run(tc.reward, func(t *testing.T) {
			opts["reward"] = tc.reward
			v := open(t, placementID, opts)
			b := reset(t, v, 1)
			// Two empty nodes with 8 of 8 slots free, where a Redis gains 1, at speed 1; Redis is
			// next; 2 MMS for 16 slots remain.
			want := []float32{
				0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1,
				1, 0, 0, 0, 0, 0, 0, 0, .125, 0, 0, 0, 0, 0, .125, 0, 0,
			}
			approx := cmpopts.EquateApprox(0, 1e-6)
			if diff := cmp.Diff(want, b.Obs, approx); diff != "" {
				t.Errorf("first observation (-want +got):\n%s", diff)
			}
			for i, action := range []float32{0, 0, 1} {
				b = step(t, v, action)
				if math.Abs(b.Reward[0]-tc.want[i]) > 1e-9 {
					t.Errorf("step %d: reward %v, want %v", i, b.Reward[0], tc.want[i])
				}
				if i == 1 { // node 0 has a Redis and an MMS, worth 0.9 + 1.8; another MMS there gains 0.8 + 2·1.6 − 2.7
					if diff := cmp.Diff([]float32{.125, .125, 0, 0, 0, 0, 0, .75, 2.7 / 8, 1.3, 1}, b.Obs[:11], approx); diff != "" {
						t.Errorf("node 0 after two steps (-want +got):\n%s", diff)
					}
				}
			}
			if !b.Terminated[0] || math.Abs(b.EpisodeReturn[0]-3.7/3) > 1e-9 {
				t.Errorf("terminated %v with return %v, want true and %v", b.Terminated[0], b.EpisodeReturn[0], 3.7/3)
			}
			// throughput, objective, share of containers with 0.9, of vacant nodes; placed, rejected, violations
			if diff := cmp.Diff([]float64{3.7 / 3, 3.7 / 3, 1, 0, 3, 0, 0}, b.FinalInfo, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("info (-want +got):\n%s", diff)
			}
		})
	}
}

// playBaseline plays an episode and returns its last info and the sum of its rewards.
func playBaseline(tb testing.TB, id, baseline string, opts map[string]any, seed uint64) (info []float64, ret float64) {
	tb.Helper()
	v := open(tb, id, opts)
	b := envstest.Play(tb, v, envstest.Policy(tb, v, baseline), seed)
	return b.FinalInfo, b.EpisodeReturn[0]
}

// TestBaselinesReachGolden plays baselines through the contract and compares their throughput
// with golden_batches.csv, batch 0 of 200 on table p20.
func TestBaselinesReachGolden(t *testing.T) {
	dir := lratest.Dir(t)
	batch := map[string]any{"table": filepath.Join(dir, "node_table_rf_p20.csv"), "batches": filepath.Join(dir, "batch_set_200.csv"), "batch": 0}
	shuffled := map[string]any{"order": "shuffled"}
	for _, tc := range []struct {
		id, baseline    string
		opts            map[string]any
		want, tolerance float64
	}{
		{placementID, "round_robin", nil, 0.946680, 1e-6},
		{placementID, "greedy", nil, 1.198029, 1e-6},
		{placementID, "greedy_app_order", shuffled, 1.198029, 1e-6},
		{placementID, "milp", shuffled, 1.204404, 1.3e-4},
	} {
		opts := map[string]any{}
		for _, m := range []map[string]any{batch, tc.opts} {
			for k, v := range m {
				opts[k] = v
			}
		}
		info, ret := playBaseline(t, tc.id, tc.baseline, opts, 1)
		if math.Abs(info[0]-tc.want) > tc.tolerance || math.Abs(ret-info[1]) > 1e-9 {
			t.Errorf("%s of %s: throughput %.6f, return %.6f, want both %v", tc.baseline, tc.id, info[0], ret, tc.want)
		}
	}
}

// TestPlanOnOneTableScoreOnAnother: means of greedy over the published batches 0 to 29 of 200,
// planned by forests on part of the profile and scored by all of it: 1.077, 1.193, 1.196 by an
// independent computation; 1.2215 where the table is known.
func TestPlanOnOneTableScoreOnAnother(t *testing.T) {
	dir := lratest.Dir(t)
	for table, want := range map[string]float64{"rf_p05": 1.077, "rf_p20": 1.193, "rf_p90": 1.196, "true_6435": 1.2215} {
		if testing.Short() && table != "rf_p05" {
			continue
		}
		sum := 0.0
		for batch := range 30 {
			info, _ := playBaseline(t, placementID, "greedy", map[string]any{
				"table": filepath.Join(dir, "node_table_"+table+".csv"), "score_table": filepath.Join(dir, "node_table_true_6435.csv"),
				"batches": filepath.Join(dir, "batch_set_200.csv"), "batch": batch,
			}, 1)
			sum += info[0] / 30
		}
		if math.Abs(sum-want) > 0.0006 {
			t.Errorf("planned on %s: %.4f, want %v", table, sum, want)
		}
	}
}

// TestClusterAgrees plays at random and sees that the cluster's nodes run what the task thinks,
// and that dense rewards add up to the terminal one.
func TestClusterAgrees(t *testing.T) {
	for _, tc := range []struct {
		name, id string
		opts     map[string]any
	}{
		{"batch", placementID, map[string]any{"nodes": 5, "containers": 38, "order": "shuffled"}},
		{"online", placementID, map[string]any{"nodes": 5, "containers": 80, "arrivals": "online", "load": 0.9}},
		{"constraints", placementID, map[string]any{"nodes": 8, "containers": 40, "spread": 2, "restrict": []string{"isr:0.5"}, "soft_violations": 0.1, "order": "shuffled"}},
		{"kinds", placementID, map[string]any{"nodes": 6, "containers": 20, "classes": []string{"0.5:2:2", "0.5:8:1"}, "objective": "vacant"}},
		{"remap", subclusterID, map[string]any{"nodes": 3, "containers": 24, "full": "remap"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			returns := map[string]float64{}
			for _, reward := range []string{"dense", "terminal"} {
				tc.opts["reward"] = reward
				v := open(t, tc.id, tc.opts)
				b := reset(t, v, 3)
				task := v.Env(0).Task().(*placement.Task)
				_, act := v.Spaces()
				rng, action := rand.New(rand.NewPCG(7, 7)), []float32{0}
				for {
					act.Sample(rng, b.Mask[:space.MaskSize(act)], action)
					b = step(t, v, action[0])
					for i, s := range task.Placement() {
						if n := v.Env(0).State().Nodes[i].NumPods; int(n) != s.Total() {
							t.Fatalf("node %d runs %d pods, the task has %v there", i, n, s.Counts())
						}
					}
					if b.Done(0) {
						break
					}
				}
				returns[reward] = b.EpisodeReturn[0]
				if b.FinalInfo[6] > 4 {
					t.Errorf("%v violations, want at most 4", b.FinalInfo[6])
				}
			}
			if math.Abs(returns["dense"]-returns["terminal"]) > 1e-9 || returns["dense"] == 0 {
				t.Errorf("returns %v differ or are 0", returns)
			}
		})
	}
}

// TestGapReward: what the reward gap subtracts is no policy's doing, so that the returns of all
// policies fall by the same; and no placement is worth more than the linear bound.
func TestGapReward(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts map[string]any
	}{
		{"equal nodes", map[string]any{"nodes": 12, "containers": 300, "arrivals": "online", "load": 0.8}},
		{"kinds of nodes", map[string]any{"nodes": 10, "containers": 200, "arrivals": "online", "load": 0.6, "classes": []string{"0.5:8:1", "0.5:4:1.5"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var less []float64
			for _, baseline := range []string{"greedy", "least_loaded", "random"} {
				returns := map[string]float64{}
				for _, reward := range []string{"dense", "gap"} {
					tc.opts["reward"] = reward
					_, returns[reward] = playBaseline(t, placementID, baseline, tc.opts, 5)
				}
				if returns["gap"] >= 0 {
					t.Errorf("%s: return %v with reward gap, want below 0", baseline, returns["gap"])
				}
				less = append(less, returns["dense"]-returns["gap"])
			}
			for _, v := range less[1:] {
				if math.Abs(v-less[0]) > 1e-9 {
					t.Errorf("reward gap subtracts %v, want as much of each policy", less)
				}
			}
		})
	}
}

// TestGoldenEpisodes pins an episode of each kind: a change of any law, draw or feature shows
// here and must be meant.
func TestGoldenEpisodes(t *testing.T) {
	for _, tc := range []struct {
		name, id string
		opts     map[string]any
	}{
		{"placement", placementID, map[string]any{"nodes": 4, "containers": 16, "order": "shuffled", "table_seed": 5}},
		{"online", placementID, map[string]any{"nodes": 3, "containers": 12, "arrivals": "online"}},
		{"subcluster", subclusterID, map[string]any{"containers": 8}},
	} {
		v := open(t, tc.id, tc.opts)
		envstest.Golden(t, tc.name, envstest.Sampled(t, v, 42))
	}
}
