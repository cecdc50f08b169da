package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// sealed matches a seed of the sealed block, or the flag that plays it.
var sealed = regexp.MustCompile(`\b3[_,]?\d{3}[_,]?\d{3}[_,]?\d{3}\b|--sealed`)

// TestNothingPlaysSealedSeeds: no default, example or text of a command, and no document or script, has a
// seed of the sealed block. The page of the method describes it.
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
	walk(newRoot())
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
			if info, err := os.Stat(path); err != nil || info.IsDir() || name == "docs/results/method.md" || name == "CHANGELOG.md" {
				continue
			}
			check(name, clitest.Read(t, path))
		}
	}
}
