package run

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// TestReadEvaluations: of the evaluations up to the checkpoint's step, the curve has all and best is
// the highest mean: of 1, 3 and of 5, 7 it is 6; the later 100 is not the checkpoint's.
func TestReadEvaluations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evaluations.csv")
	if best, curve, err := readEvaluations(path, 200); err != nil || !math.IsInf(best, -1) || curve != nil {
		t.Errorf("no file: %v, %v, %v; want none and -Inf", best, curve, err)
	}
	for text, want := range map[string]string{
		"":                "",
		"x,2,1,2,1,3\n":   `line 2: timesteps "x" is no number`,
		"100,2,1,2,1,y\n": `line 2: return "y" is no number`,
	} {
		content := "timesteps,mean,std,episodes,returns\n" + text
		if text == "" {
			content += "100,2,1,2,1,3\n200,6,1,2,5,7\n300,100,0,2,100,100\n"
		}
		envstest.Write(t, path, content)
		best, curve, err := readEvaluations(path, 200)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", text, err, want)
			}
			continue
		}
		if err != nil || best != 6 {
			t.Errorf("best %v, %v; want 6", best, err)
		}
		if d := cmp.Diff([]Evaluation{{Step: 100, Returns: []float64{1, 3}}, {Step: 200, Returns: []float64{5, 7}}}, curve); d != "" {
			t.Errorf("curve (-want +got):\n%s", d)
		}
	}
}
