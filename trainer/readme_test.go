package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// TestReadmeScores: each row of the README's scores says of how many episodes and trainings it is,
// and its figures stand in the card, or on the environment's page of docs/results.
func TestReadmeScores(t *testing.T) {
	sources := map[string]string{ // of rows without a card
		"GangWindow-v0": "gang", "GangForecast-v0": "gang", "PodBalance-v0": "balance", "GPUPodScheduling-v": "gpu",
		"VerticalPodAutoscaler-v1": "vpa_shared", "LRAPlacement-v0": "sealed", "LRASubcluster-v0": "sealed", "LRAHierarchical-v0": "sealed",
		"LRAPricing-v0": "lra", "LRAOnline-v0": "lra",
	}
	_, table, ok := strings.Cut(envstest.Read(t, filepath.Join("..", "README.md")), "| environment | unit | episodes |")
	if !ok {
		t.Fatal("no table of scores with a column of episodes in README.md")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[2:]
	if len(rows) != 16 {
		t.Errorf("%d rows, want 16", len(rows))
	}
	for _, line := range rows {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 8 {
			t.Errorf("%d cells in %s", len(cells), line)
			continue
		}
		name, episodes, ppo, trainings := cells[0], strings.Fields(cells[2]), strings.Trim(cells[5], " *"), strings.TrimSpace(cells[6])
		var path string
		for part, page := range sources {
			if strings.Contains(name, part) {
				path = filepath.Join("..", "docs", "results", page+".md")
			}
		}
		if _, link, ok := strings.Cut(name, "]("); ok {
			path = filepath.Join("..", strings.TrimRight(strings.TrimSpace(link), ")"))
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("row %s: %v", name, err)
			continue
		}
		words := map[string]string{
			"mean of five seeds": "five", "one seed": "held-out episodes, the same for all", "shipped model": "[shipped models]", "none": "held-out",
		}
		if words[trainings] == "" || (ppo == "") != (trainings == "none") {
			t.Errorf("row %s: PPO %q and trainings %q, want mean of five seeds, one seed, shipped model or none", name, ppo, trainings)
		}
		best, _, _ := strings.Cut(strings.TrimSpace(cells[4]), " ")
		if page := filepath.Base(path); page == "sealed.md" || page == "vpa_shared.md" || trainings == "none" { // others round it
			if !strings.Contains(string(text), best) {
				t.Errorf("row %s: %s has no %q", name, path, best)
			}
		}
		if ppo == "1.046" || ppo == "0.995" || ppo == "12.8" || ppo == "12.2" { // rounded in the README
			ppo = map[string]string{"1.046": "1.0455", "0.995": "0.9949", "12.8": "12.78", "12.2": "12.22"}[ppo]
		}
		number := map[string]string{"10": "ten"}[episodes[0]]
		if number == "" {
			number = episodes[0]
		}
		for _, want := range []string{ppo, words[trainings], number} {
			if !strings.Contains(string(text), want) {
				t.Errorf("row %s: %s has no %q", name, path, want)
			}
		}
	}
}
