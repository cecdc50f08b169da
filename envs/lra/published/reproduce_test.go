package published_test

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/lratest"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/published"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
)

// TestReproduceGolden recomputes every row of golden_batches.csv.
func TestReproduceGolden(t *testing.T) {
	sub, err := subcluster.ReadNetworks(filepath.Join(lratest.Dir(t), "metis_subscheduler_weights.npz"))
	if err != nil {
		t.Fatal(err)
	}
	tables, batches := map[string]*lra.Table{}, map[int][]lra.Counts{}
	for i, g := range readGolden(t) {
		if testing.Short() && i%7 != 3 { // the hardest rows, 2, 14 and 18, take most of the time
			continue
		}
		if tables[g.table] == nil {
			tables[g.table] = lratest.Table(t, g.table)
		}
		if batches[g.containers] == nil {
			batches[g.containers] = lratest.Batches(t, g.containers)
		}
		name := fmt.Sprintf("%d nodes, batch %d of %d, table %s", g.nodes, g.batch, g.containers, g.table)
		t.Run(name, func(t *testing.T) {
			got, err := published.Reproduce(t.Context(), tables[g.table], g.nodes, batches[g.containers][g.batch], sub)
			if err != nil {
				t.Fatal(err)
			}
			check := func(what string, got, want, tolerance float64) {
				if want != 0 && !(math.Abs(got-want) <= tolerance) {
					t.Errorf("%s is %.7f, want %v within %.1e", what, got, want, tolerance)
				}
			}
			check("round-robin", got.RoundRobin, g.roundRobin, 1e-6)
			check("greedy", got.Greedy, g.greedy, 1e-6)
			check("LP bound", got.LPBound, g.lp, 1e-5)
			check("MILP", got.MILP, g.milp, 1e-4*g.milp)
			check("Metis's demonstration with its sub-schedulers", *got.MetisDemoPlusSub, g.metis, 1e-6)
			if got.MILP > got.LPBound+1e-9 || got.MILP < got.Greedy-1e-9 {
				t.Errorf("the optimum %v is not between greedy %v and the bound %v", got.MILP, got.Greedy, got.LPBound)
			}
		})
	}
}

// Exact optima of tiny instances by an independent integer program, of the facts on this
// problem; greedy and round-robin as defined there.
func TestTinyInstances(t *testing.T) {
	table := lratest.Table(t, "true")
	for _, tc := range []struct {
		batch                       lra.Counts
		nodes                       int
		optimum, greedy, roundRobin float64
	}{
		{lra.Counts{1, 1, 0, 0, 0, 0, 1}, 2, 4.482326, 0, 0},
		{lra.Counts{1, 2, 0, 0, 0, 0, 1}, 2, 7.177465, 0, 0},
		{lra.Counts{1, 2, 1, 1, 1, 1, 1}, 3, 10.988181, 10.955364, 7.249774},
		{lra.Counts{2, 2, 2, 2, 2, 2, 2}, 6, 17.099633, 16.994036, 0},
		{lra.Counts{7, 8, 3, 9, 7, 9, 7}, 20, 62.110745, 61.614840, 0},
		{lra.Counts{4, 4, 4, 4, 4, 4, 4}, 4, 29.076007, 25.697290, 24.725645},
	} {
		p, err := planner.NewProblem(table, tc.nodes, tc.batch)
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.Solve(t.Context(), planner.SolveOptions{Gap: 1e-9})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(s.Value-tc.optimum) > 2e-6 {
			t.Errorf("%v on %d nodes: optimum %.6f, want %v", tc.batch, tc.nodes, s.Value, tc.optimum)
		}
		if got := s.Placement.Batch(); got != tc.batch {
			t.Errorf("%v on %d nodes: the optimum places %v", tc.batch, tc.nodes, got)
		}
		for _, h := range []struct {
			name   string
			choose planner.Chooser
			want   float64
		}{{"greedy", p.Greedy, tc.greedy}, {"round-robin", p.RoundRobin(), tc.roundRobin}} {
			x, err := p.Place(planner.AppOrder(tc.batch), h.choose)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Value(x); h.want != 0 && math.Abs(got-h.want) > 2e-6 {
				t.Errorf("%v on %d nodes: %s %.6f, want %v", tc.batch, tc.nodes, h.name, got, h.want)
			}
		}
	}
}

// golden is a row of golden_batches.csv, computed with HiGHS and NumPy by others.
type golden struct {
	nodes, containers, batch int
	table                    string
	roundRobin, greedy, lp   float64
	milp, metis              float64 // 0 if not there
}

func readGolden(tb testing.TB) []golden {
	tb.Helper()
	f, err := os.Open(filepath.Join(lratest.Dir(tb), "golden_batches.csv"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		tb.Fatal(err)
	}
	number := func(field string) float64 {
		if field == "" {
			return 0
		}
		v, err := strconv.ParseFloat(field, 64)
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
	var all []golden
	for _, r := range rows[1:] {
		all = append(all, golden{
			int(number(r[0])), int(number(r[1])), int(number(r[2])), r[3], number(r[4]), number(r[5]), number(r[6]), number(r[7]), number(r[8]),
		})
	}
	return all
}
