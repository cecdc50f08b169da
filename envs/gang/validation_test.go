package gang_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/gang"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
)

// TestValidationRows: a series of 90 rows before the held-out ones counts its rows, so that sizes from 10
// to 50 name them; held-out rows have the size between rows 44 and 45. Validation has the last 30, fit those before.
func TestValidationRows(t *testing.T) {
	dir := gangtest.HandData(t, 1, 90)
	var text strings.Builder
	text.WriteString("timestamp,value\n")
	for i := range 1019 + 90 {
		value := 44.5
		if i < 90 {
			value = float64(i)
		}
		fmt.Fprintf(&text, "%s,%g\n", time.Date(2026, 1, 1, i, 0, 0, 0, time.UTC).Format(time.DateTime), value)
	}
	for _, name := range []string{"x", "y", "z"} {
		write(t, filepath.Join(dir, "series", name+".csv"), text.String())
	}
	for _, tc := range []struct {
		split       string
		steps       int
		first, last float64 // rows with the true size of some step
	}{
		{"validation", 3, 60, 80}, // the last nine rows are only in predictions, which look nine rows ahead
		{"heldout", 3, 44.5, 44.5},
		{"train", 3, 1, 80},        // planners look back one row
		{"validation", 50, 30, 80}, // an episode needs 60 rows and has them
		{"fit", 3, 1, 50},          // its predictions end before row 60
	} {
		v := open(t, 1, map[string]any{"data": dir, "split": tc.split, "forecaster": "persistence", "steps": tc.steps})
		first, last := math.Inf(1), math.Inf(-1)
		for seed := range uint64(300) {
			reset(t, v, seed)
			for _, size := range v.Env(0).Task().(*gang.Task).Instance().Trace().True {
				row := (size - 10) / 40 * 89
				first, last = min(first, row), max(last, row)
			}
		}
		if math.Abs(first-tc.first) > 1e-6 || math.Abs(last-tc.last) > 1e-6 {
			t.Errorf("%s, %d steps: rows %.1f to %.1f, want %v to %v", tc.split, tc.steps, first, last, tc.first, tc.last)
		}
	}
}

// TestValidationPool: of a pool of instances, which any seed draws from, validation has others than the
// held-out split. Without a pool, seeds distinguish the two, and an equal seed gives an equal instance.
func TestValidationPool(t *testing.T) {
	for _, pool := range []int{0, 1} {
		opts := func(split string) map[string]any {
			return map[string]any{"steps": 5, "instances": pool, "split": split}
		}
		obs := map[string][]float32{}
		for _, split := range []string{"train", "validation", "heldout"} {
			obs[split] = append([]float32{}, reset(t, open(t, 1, opts(split)), 1).Obs...)
		}
		if cmp.Equal(obs["train"], obs["validation"]) {
			t.Errorf("pool of %d: validation has the instance of training", pool)
		}
		if same := cmp.Equal(obs["validation"], obs["heldout"]); same != (pool == 0) {
			t.Errorf("pool of %d: validation has the held-out instance: %v", pool, same)
		}
	}
}
