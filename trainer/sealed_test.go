package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/command/all"
)

// sealed matches a seed of the sealed block, or the flag that plays it.
var sealed = regexp.MustCompile(`\b3[_,]?\d{3}[_,]?\d{3}[_,]?\d{3}\b|--sealed`)

// TestNothingPlaysSealedSeeds: no default, example or text of a command, and no document or script, has a
// seed of the sealed block, but for the page of the method, which describes it, and tools/sealed.py, which plays it once.
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
			if info, err := os.Stat(path); err != nil || info.IsDir() || strings.HasPrefix(name, ".cache/") || name == "docs/results/method.md" || name == "CHANGELOG.md" || name == "tools/sealed.py" {
				continue
			}
			check(name, clitest.Read(t, path))
		}
	}
}

// TestSealedPage: the page of final scores has every model of the tables of the sealed block with its mean and
// verdict, bold where that is "better", and the record of uses has every environment of a table once.
func TestSealedPage(t *testing.T) {
	results := filepath.Join("..", "docs", "results")
	read := func(path string) [][]string {
		rows, err := csv.NewReader(strings.NewReader(clitest.Read(t, path))).ReadAll()
		if err != nil || len(rows) < 2 {
			t.Fatalf("%s: %d rows, %v", path, len(rows), err)
		}
		return rows
	}
	uses := map[string]int{}
	for _, row := range read(filepath.Join(results, "sealed.csv"))[1:] {
		uses[row[0]]++
	}
	page := clitest.Read(t, filepath.Join(results, "sealed.md"))
	tables, err := filepath.Glob(filepath.Join(results, "sealed", "*.csv"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	models := 0
	for _, path := range tables {
		env := strings.Replace(strings.TrimSuffix(filepath.Base(path), ".csv"), "-", "/", 1)
		if uses[env] != 1 {
			t.Errorf("sealed.csv has %d uses of %s, want 1", uses[env], env)
		}
		for _, row := range read(path)[1:] {
			verdict := row[6]
			if verdict == "" {
				continue
			}
			name := strings.TrimSuffix(row[0], ".safetensors")
			if verdict == "better" {
				name = "**" + name + "**"
			}
			models++
			line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta("`"+env+"`") + ` \| \d+ \| ` + regexp.QuoteMeta(name+" | "+row[1]) + ` \|.*\| ` + verdict + ` \|$`)
			if !line.MatchString(page) {
				t.Errorf("sealed.md has no line of %s with the mean %s and the verdict %s on %s", name, row[1], verdict, env)
			}
		}
	}
	if found := strings.Count(page, "\n| `"); found != models {
		t.Errorf("sealed.md has %d models, the tables %d", found, models)
	}
}
