package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/run"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// resultsPart is a part of make results (tools/results.py).
type resultsPart struct {
	Name, Train, Fit, Seeds, Before, Evaluate, Search, CSV, Line, Record, Table, Column, Each, Run string

	Minutes float64
	Expect  map[string]string
	Rows    map[string][]string
	Texts   map[string][]string
	Names   []string
	For     []string
	Writes  []string
	Sealed  *sealedPart
}

// sealedPart says which episodes of the sealed block a part plays.
type sealedPart struct {
	Table           string
	Episodes, First int
}

// resultsParts returns the parts of every file of tools/tables, by file and name.
func resultsParts(t *testing.T) map[string]resultsPart {
	t.Helper()
	paths, err := filepath.Glob("../tools/tables/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files of parts, %v", len(paths), err)
	}
	all := map[string]resultsPart{}
	for _, path := range paths {
		var table struct {
			Page      string
			Rows      []json.RawMessage
			Elsewhere map[string]string
		}
		dec := json.NewDecoder(strings.NewReader(envstest.Read(t, path)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&table); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, p := range expanded(t, table.Rows) {
			name := filepath.Base(path) + ": " + p.Name
			if _, ok := all[name]; ok || p.Minutes <= 0 {
				t.Errorf("%s: there are two, or it has no minutes", name)
			}
			all[name] = p
		}
	}
	return all
}

// expanded returns the parts that each of a file's parts stands for: with "for", one with each of its texts in place of THIS.
func expanded(t *testing.T, raw []json.RawMessage) (all []resultsPart) {
	t.Helper()
	for _, part := range raw {
		var texts struct{ For []string }
		if err := json.Unmarshal(part, &texts); err != nil {
			t.Fatalf("%s: %v", part, err)
		}
		if texts.For == nil {
			texts.For = []string{""}
		}
		for _, text := range texts.For {
			dec := json.NewDecoder(strings.NewReader(strings.ReplaceAll(string(part), "THIS", text)))
			dec.DisallowUnknownFields()
			var p resultsPart
			if err := dec.Decode(&p); err != nil {
				t.Fatalf("%s: %v", part, err)
			}
			all = append(all, p)
		}
	}
	return all
}

// commands returns the arguments of the trainer's commands of a part.
func (p resultsPart) commands(t *testing.T) (all [][]string) {
	t.Helper()
	add := func(args string) {
		args = strings.NewReplacer("DATA", cli.DataFolder(), "LOGS", t.TempDir(), "SEED", "1", "EACH", "1", " models/", " ../models/", "=models/", "=../models/").Replace(args)
		all = append(all, strings.Fields(args))
	}
	switch {
	case p.Run != "":
		for _, d := range commandsOf(t, script{p.Name, 1, p.Run, false}) {
			all = append(all, d.args)
		}
	case p.Fit != "":
		add(p.Fit)
	case p.Train != "":
		add("train " + p.Train + " --seeds " + p.Seeds)
	}
	if p.Evaluate != "" {
		add(p.Evaluate)
	}
	if p.Before != "" {
		add(p.Before)
	}
	return all
}

// csvRows returns the header of a CSV file and the rows below it.
func csvRows(t *testing.T, path string) (header []string, rows [][]string) {
	t.Helper()
	table, err := tracking.ReadCSV(strings.NewReader(envstest.Read(t, path)))
	if err != nil || len(table.Rows) == 0 {
		t.Fatalf("%s: %+v, %v", path, table, err)
	}
	for _, c := range table.Columns {
		header = append(header, c.Name)
	}
	return header, table.Rows
}

// comparison returns the rows of a table of compare, and its column of verdicts.
func comparison(t *testing.T, path string) (rows [][]string, verdict int) {
	t.Helper()
	header, rows := csvRows(t, path)
	if verdict = slices.Index(header, "verdict"); verdict < 0 {
		t.Fatalf("%s has no column verdict", path)
	}
	return rows, verdict
}

// trainingVerdict returns the verdict on the training of several seeds in a table of compare, whose path is that of a part.
func trainingVerdict(t *testing.T, table string) string {
	t.Helper()
	rows, verdict := comparison(t, filepath.Join("..", table))
	for _, row := range rows {
		if strings.HasSuffix(row[0], " seeds") {
			return row[verdict]
		}
	}
	return ""
}

// TestResultsParts: every command of make results has flags and arguments that its command takes, and a training
// has played the sealed block if the part has a table of it.
func TestResultsParts(t *testing.T) {
	for name, p := range resultsParts(t) {
		if p.Sealed != nil && trainingVerdict(t, p.Sealed.Table) == "" {
			t.Errorf("%s: %s has no verdict on a training of several seeds", name, p.Sealed.Table)
		}
		if p.Run != "" && !mention.MatchString(p.Run) {
			continue // a target of make
		}
		for _, args := range p.commands(t) {
			cmd, rest, err := root().Find(args)
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: trainer %s: %v", name, strings.Join(args, " "), err)
			}
		}
	}
}

// TestResultsOnCards: each part with a record is in the list of trainings of several seeds beside the models of its environment, with
// the same tables and episodes, and the lists have nothing else.
func TestResultsOnCards(t *testing.T) {
	type training struct {
		Name, Record string
		Episodes     int
		Sealed       *sealedPart
	}
	paths, err := filepath.Glob("../models/pretrained/*/trainings.yml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d lists, %v", len(paths), err)
	}
	listed := map[string]training{}
	folders := map[string]string{}
	for _, path := range paths {
		var list []training
		if err := yaml.Unmarshal([]byte(envstest.Read(t, path)), &list); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, l := range list {
			listed[l.Name], folders[l.Name] = l, filepath.Base(filepath.Dir(path))
		}
	}
	const root = "../../../"
	for name, p := range resultsParts(t) {
		if p.Record == "" {
			continue
		}
		name = strings.Replace(name, ".json", "", 1)
		got, want := listed[name], training{Name: name, Record: root + p.Record, Sealed: p.Sealed}
		delete(listed, name)
		if p.Sealed != nil {
			sealed := *p.Sealed
			sealed.Table, sealed.First = root+sealed.Table, 0 // a card does not say which
			want.Sealed = &sealed
		}
		_, rest, _ := strings.Cut(p.Evaluate, "--episodes ")
		if want.Episodes, err = strconv.Atoi(strings.Fields(rest + " ?")[0]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s in models/pretrained/*/trainings.yml (-want +got):\n%s", name, d)
		}
		if _, rest, ok := strings.Cut(p.Train, "--env "); ok && folders[name] != run.EnvName(strings.Fields(rest)[0]) {
			t.Errorf("%s is on the card of %s, want that of %s", name, folders[name], strings.Fields(rest)[0])
		}
	}
	for name := range listed {
		t.Errorf("%s is no part of tools/tables with a record", name)
	}
}

// TestResultsRun runs the comparisons of baselines of make results in their short form.
func TestResultsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds: run without -short")
	}
	parts := resultsParts(t)
	ran := 0
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		p := parts[name]
		if p.Table == "" || p.Seeds != "" || p.Before != "" || !strings.HasPrefix(p.Evaluate, "compare") {
			continue
		}
		if _, err := os.Stat(cli.DataFolder()); strings.Contains(p.Evaluate, "DATA") && err != nil {
			continue
		}
		args := p.commands(t)[0]
		args = append(args, shortForm(args)...)
		if strings.Contains(p.Evaluate, "GPUPodScheduling") && strings.Contains(p.Evaluate, "ollout") {
			args = append(args, "--env-kwargs", "num_nodes:8") // few nodes make the futures of rollouts short
		}
		if err := runUntil(t.Context(), args, ""); err != nil {
			t.Errorf("%s: trainer %s: %v", name, strings.Join(args, " "), err)
		}
		ran++
	}
	if ran < 10 {
		t.Errorf("%d comparisons ran, want all that need no data", ran)
	}
}
