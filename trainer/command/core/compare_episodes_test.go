package core

import (
	"encoding/csv"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// TestCompareKeepsEpisodes: JSON and CSV hold the return, length and metrics of every episode of every
// policy, as evaluation.Play gives them without this package.
func TestCompareKeepsEpisodes(t *testing.T) {
	const episodes = 3
	names := []string{"static_2", "dynamic_mpc"}
	v, err := envs.Make("k8s/GangWindow-v0", episodes, envs.VecOptions{Options: map[string]any{"steps": 20, "split": "heldout"}, Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	want := map[string]play.EpisodeValues{}
	for _, name := range names {
		p, err := baseline.New(v, name, 0)
		if err != nil {
			t.Fatal(err)
		}
		r, err := evaluation.Play(t.Context(), v, p, []uint64{7, 8, 9})
		if err != nil {
			t.Fatal(err)
		}
		w := play.EpisodeValues{Returns: r.Returns, Lengths: r.Lengths, Metrics: map[string][]float64{}}
		for _, m := range v.Spec().Metrics {
			for _, row := range r.Info {
				w.Metrics[m.Column] = append(w.Metrics[m.Column], row[v.Spec().Column(m.Column)])
			}
		}
		want[name] = w
	}

	file := filepath.Join(t.TempDir(), "episodes.csv")
	c := clitest.Decode[play.Comparison](t, mustExecute(t, "compare", "--env", "k8s/GangWindow-v0", "--env-kwargs", "steps:20", "--seed", "7",
		"--episodes", "3", "--baseline", names[0], "--baseline", names[1], "--csv-episodes", file, "--json"))
	got := map[string]play.EpisodeValues{}
	for _, r := range c.Rows {
		got[r.Policy] = r.Episodes
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}

	rows, err := csv.NewReader(strings.NewReader(envstest.Read(t, file))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]play.EpisodeValues{}
	for i, row := range rows[1:] {
		numbers := map[string]float64{}
		for k, text := range row {
			if k > 1 {
				if numbers[rows[0][k]], err = strconv.ParseFloat(text, 64); err != nil {
					t.Fatal(err)
				}
			}
		}
		if seed := float64(7 + i%episodes); row[1] != play.KindBaseline || numbers["seed"] != seed {
			t.Errorf("row %d is %v, want a baseline's with seed %v", i, row, seed)
		}
		e := read[row[0]]
		e.Returns, e.Lengths = append(e.Returns, numbers["return"]), append(e.Lengths, int64(numbers["length"]))
		if e.Metrics == nil {
			e.Metrics = map[string][]float64{}
		}
		for _, m := range v.Spec().Metrics {
			e.Metrics[m.Column] = append(e.Metrics[m.Column], numbers[m.Column])
		}
		read[row[0]] = e
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("CSV (-want +got):\n%s", diff)
	}
}
