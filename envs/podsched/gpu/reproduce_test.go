package gpu_test

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/kubernasium/kubernasium/envs/podsched/gpu"
)

// published reads the curves of expected_alloc.csv or expected_frag.csv, by list, policy and
// seed.
func published(t *testing.T, file string) map[[3]string][]float64 {
	t.Helper()
	f, err := os.Open(filepath.Join(dataDir(t), file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	first := 0
	for rows[0][first] != "0" {
		first++
	}
	curves := map[[3]string][]float64{}
	for _, row := range rows[1:] {
		var points []float64
		for _, field := range row[first:] {
			v, err := strconv.ParseFloat(field, 64)
			if err != nil {
				t.Fatal(err)
			}
			points = append(points, v)
		}
		curves[[3]string{row[0], row[1][3:], row[3]}] = points // "06-FGD" is FGD
	}
	return curves
}

// TestPublishedCurves plays the five lists with the deterministic policies and ten seeds (with
// -short, one) and compares every point with the published tables. They are rounded to 0.01.
func TestPublishedCurves(t *testing.T) {
	dir := dataDir(t)
	alloc, frag := published(t, "expected_alloc.csv"), published(t, "expected_frag.csv")
	nodes, err := gpu.ReadNodes(filepath.Join(dir, "openb_node_list_gpu_node.csv"))
	if err != nil {
		t.Fatal(err)
	}
	worst := map[string]float64{}
	compare := func(what string, key [3]string, got, want []float64) {
		if len(got) != len(want) {
			t.Fatalf("%v: %d points of %s, want %d", key, len(got), what, len(want))
		}
		for x := range want {
			d := math.Abs(got[x] - want[x])
			worst[what+" "+key[1]] = max(worst[what+" "+key[1]], d)
			if d > 0.011 {
				t.Errorf("%v: %s at %d %% is %v, want %v", key, what, x, got[x], want[x])
				return
			}
		}
	}
	for _, list := range []string{"default", "cpu050", "gpushare40", "gpuspec10", "multigpu20"} {
		name := "openb_pod_list_" + list
		pods, err := gpu.ReadPods(filepath.Join(dir, name+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		for seed := int64(42); seed <= 51; seed++ {
			for _, policy := range []string{"FGD", "BestFit", "DotProd", "GpuClustering", "GpuPacking"} {
				if testing.Short() && seed > 42 {
					break
				}
				run, err := gpu.Reproduce(nodes, pods, policy, seed, gpu.DefaultRatio)
				if err != nil {
					t.Fatal(err)
				}
				key := [3]string{name, policy, strconv.FormatInt(seed, 10)}
				compare("alloc", key, run.Alloc, alloc[key])
				compare("frag", key, run.Frag, frag[key])
			}
		}
	}
	t.Log("largest differences:", worst)
}
