package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/command/all"
)

// sealed matches a seed of the sealed block, or the flag that plays it.
var sealed = regexp.MustCompile(`\b3[_,]?\d{3}[_,]?\d{3}[_,]?\d{3}\b|--sealed`)

// TestNothingPlaysSealedSeeds: no default, example or text of a command, and no document or script, has a
// seed of the sealed block, but for the page of the method, which describes it, and tools/sealed.py and tools/results.py,
// which play it once.
func TestNothingPlaysSealedSeeds(t *testing.T) {
	if !sealed.MatchString("--seed 3_000_000_007") || !sealed.MatchString("from 3,000,000,000 on") || sealed.MatchString("2000000000") {
		t.Fatal("the pattern is wrong")
	}
	check := func(where, text string) {
		if found := sealed.FindString(text); found != "" {
			t.Errorf("%s has %s, of the sealed block", where, found)
		}
	}
	commands := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		commands++
		check(c.CommandPath(), c.Example+c.Long)
		c.Flags().VisitAll(func(f *pflag.Flag) { check(c.CommandPath()+" --"+f.Name, f.DefValue) })
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(all.New())
	if commands < 20 {
		t.Errorf("%d commands, want all", commands)
	}
	for _, pattern := range []string{"Makefile", "*.md", "*/*.md", "*/*/*.md", "*/*/*/*.md", "tools/*.py", "tools/tables/*.json", "clients/python/examples/*", "models/pretrained/*/*.yml"} {
		paths, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil || len(paths) == 0 {
			t.Errorf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
			if info, err := os.Stat(path); err != nil || info.IsDir() || strings.HasPrefix(name, ".cache/") || name == "docs/results/method.md" || name == "CHANGELOG.md" || name == "tools/sealed.py" || name == "tools/results.py" {
				continue
			}
			check(name, envstest.Read(t, path))
		}
	}
}

// TestSealedPage: the page of final scores has every model and training of the tables of the sealed block with its mean
// and verdict, bold where that is "better", and the record of uses has every table once, besides those of models and
// trainings that others have replaced.
func TestSealedPage(t *testing.T) {
	results := filepath.Join("..", "docs", "results")
	page := envstest.Read(t, filepath.Join(results, "sealed.md"))
	tables, err := filepath.Glob(filepath.Join(results, "sealed", "*.csv"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	of, ids := map[string]string{}, map[string]string{} // names of the parts of make results and their environments, by table
	for name, p := range resultsParts(t) {
		if p.Sealed != nil {
			_, rest, _ := strings.Cut(p.Train+" "+p.Evaluate, "--env ") // of a part with fit, evaluate has it
			of[filepath.Base(p.Sealed.Table)], ids[filepath.Base(p.Sealed.Table)] = strings.Replace(name, ".json", "", 1), strings.Fields(rest)[0]
		}
	}
	lines, uses := 0, map[string]int{} // uses that the record must have, by environment
	has := func(start, name, mean, verdict string) {
		if verdict == "better" {
			name = "**" + name + "**"
		}
		lines++
		line := regexp.MustCompile(`(?m)^\| ` + fmt.Sprintf(start, regexp.QuoteMeta(name)) + ` \| ` + regexp.QuoteMeta(mean) + ` \|.*\| ` + verdict + ` \|$`)
		if !line.MatchString(page) {
			t.Errorf("sealed.md has no line of %s with the mean %s and the verdict %s", name, mean, verdict)
		}
	}
	for _, path := range tables {
		part, training := of[filepath.Base(path)]
		env := cmp.Or(ids[filepath.Base(path)], strings.Replace(strings.TrimSuffix(filepath.Base(path), ".csv"), "-", "/", 1))
		uses[env]++
		rows, column := comparison(t, path)
		for _, row := range rows {
			switch verdict := row[column]; {
			case verdict == "":
			case !training:
				has(regexp.QuoteMeta("`"+env+"`")+` \| \d+ \| %s`, strings.TrimSuffix(row[0], ".safetensors"), row[1], verdict)
			case strings.HasSuffix(row[0], " seeds"):
				has(`%s \| \d+`, part, row[1], verdict)
			}
		}
	}
	if found := len(regexp.MustCompile(`(?m)^\| .*\| (better|worse|undecided) \|$`).FindAllString(page, -1)); found != lines {
		t.Errorf("sealed.md has %d models and trainings, the tables %d", found, lines)
	}
	uses["k8s/LRAOnline-v0"] += 3 // networks that added their gains to the index
	recorded := map[string]int{}
	_, rows := csvRows(t, filepath.Join(results, "sealed.csv"))
	for _, row := range rows {
		recorded[row[0]]++
	}
	if !maps.Equal(recorded, uses) {
		t.Errorf("sealed.csv records the uses %v, want one for each table: %v", recorded, uses)
	}
}
