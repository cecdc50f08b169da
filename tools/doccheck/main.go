// Command doccheck checks the documents of this repository: docs/architecture.md names every package, the
// environments' READMEs have the same sections, README files are short, figures of a README are also on its
// results page, relative links resolve, the tests that texts name exist, examples contain the blocks of Go, and
// the Makefile has the documented targets of make.
//
// Usage: go run ./tools/doccheck
package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/kubernasium/kubernasium/"

const (
	readmeLines = 110 // of README.md: two screens
	folderLines = 200 // of a README below envs
)

// sections are the sections of an environment's README, in order.
var sections = []string{
	"Description", "Action", "Observation", "Reward", "Start and end", "Options", "Baselines", "Results",
	"Data and source", "Versions",
}

func main() {
	bad, err := check(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "doccheck:", err)
		os.Exit(2)
	}
	for _, b := range bad {
		fmt.Println(b)
	}
	if len(bad) > 0 {
		os.Exit(1)
	}
}

// check returns a line for each defect of the documents in repo.
func check(repo fs.FS) ([]string, error) {
	packages, err := list("./...", "{{.ImportPath}}")
	if err != nil {
		return nil, err
	}
	environments, err := list("./envs/all", `{{join .Imports "\n"}}`)
	if err != nil {
		return nil, err
	}
	docs, err := files(repo, ".md")
	if err != nil {
		return nil, err
	}
	code, err := files(repo, "_test.go")
	if err != nil {
		return nil, err
	}
	bad := architecture(docs["docs/architecture.md"], packages, repo)
	bad = append(bad, lengths(docs)...)
	bad = append(bad, environmentREADMEs(docs, environments)...)
	bad = append(bad, links(docs, repo)...)
	bad = append(bad, tests(docs, code)...)
	makefile, err := fs.ReadFile(repo, "Makefile")
	return append(bad, snippets(docs, code, string(makefile))...), err
}

// list returns the folders of this module that go list prints with a template.
func list(pattern, format string) ([]string, error) {
	out, err := exec.Command("go", "list", "-f", format, pattern).Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", pattern, err)
	}
	var folders []string
	for _, p := range strings.Fields(string(out)) {
		if folder, ok := strings.CutPrefix(p, module); ok {
			folders = append(folders, folder)
		}
	}
	return folders, nil
}

// files returns the text of each file of the repository whose name ends with end, by path.
func files(repo fs.FS, end string) (map[string]string, error) {
	all := map[string]string{}
	err := fs.WalkDir(repo, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (p != "." && strings.HasPrefix(d.Name(), ".") || p == "bin" || p == "logs" || p == "shared"):
			return fs.SkipDir
		case !strings.HasSuffix(p, end):
			return nil
		}
		text, err := fs.ReadFile(repo, p)
		all[p] = string(text)
		return err
	})
	return all, err
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// architecture compares the packages in text, the code spans in the first column of the table under "##
// Packages", with the packages of the module.
func architecture(text string, packages []string, repo fs.FS) (bad []string) {
	_, table, _ := strings.Cut(text, "\n## Packages\n")
	table, _, _ = strings.Cut(table, "\n## ")
	named := map[string]bool{}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cell, _, _ := strings.Cut(line[1:], "|")
		for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
			if named[m[1]] {
				bad = append(bad, "docs/architecture.md: "+m[1]+" is named twice")
			}
			named[m[1]] = true
			if !slices.Contains(packages, m[1]) && !elsewhere(repo, m[1]) {
				bad = append(bad, "docs/architecture.md: "+m[1]+" is no package")
			}
		}
	}
	for _, p := range packages {
		if !named[p] {
			bad = append(bad, "docs/architecture.md: package "+p+" is not in the table of packages")
		}
	}
	return bad
}

// elsewhere reports whether folder exists and its Go files, if any, belong to another module.
func elsewhere(repo fs.FS, folder string) bool {
	entries, err := fs.ReadDir(repo, folder)
	if err != nil {
		return false
	}
	other := true
	for _, e := range entries {
		if e.Name() == "go.mod" {
			return true
		}
		other = other && !strings.HasSuffix(e.Name(), ".go")
	}
	return other
}

// lengths checks that README files are short.
func lengths(docs map[string]string) (bad []string) {
	for _, p := range slices.Sorted(maps.Keys(docs)) {
		limit := folderLines
		switch {
		case p == "README.md":
			limit = readmeLines
		case path.Base(p) != "README.md" || !strings.HasPrefix(p, "envs/"):
			continue
		}
		if n := strings.Count(docs[p], "\n"); n > limit {
			bad = append(bad, fmt.Sprintf("%s: %d lines, want at most %d", p, n, limit))
		}
	}
	return bad
}

// environmentREADMEs checks that each environment has a README, in its folder or above, with all sections and
// with the figures of its results page. It also checks the order of the sections in other READMEs below envs.
func environmentREADMEs(docs map[string]string, environments []string) (bad []string) {
	whole := map[string]bool{} // READMEs of environments
	for _, folder := range environments {
		if p := readmeOf(folder, docs); p != "" {
			whole[p] = true
		} else {
			bad = append(bad, folder+": no README.md in this folder or above")
		}
	}
	for _, p := range slices.Sorted(maps.Keys(docs)) {
		if path.Base(p) != "README.md" || !strings.HasPrefix(p, "envs/") {
			continue
		}
		var have []string
		for _, h := range headings(docs[p]) {
			if name, ok := strings.CutPrefix(h, "## "); ok && (whole[p] || slices.Contains(sections, name)) {
				have = append(have, name)
			}
		}
		want := slices.DeleteFunc(slices.Clone(sections), func(s string) bool {
			return !whole[p] && !slices.Contains(have, s)
		})
		if !slices.Equal(have, want) {
			bad = append(bad, fmt.Sprintf("%s: sections %q, want %q", p, have, want))
		}
		if whole[p] {
			bad = append(bad, figures(p, docs)...)
		}
	}
	return bad
}

// readmeOf returns the README of folder, or the nearest one above it below envs, or "".
func readmeOf(folder string, docs map[string]string) string {
	for ; strings.HasPrefix(folder, "envs/"); folder = path.Dir(folder) {
		if _, ok := docs[folder+"/README.md"]; ok {
			return folder + "/README.md"
		}
	}
	return ""
}

var figure = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// figures checks that each number in the tables of p's section Results is also on a page of docs/results that
// the section links.
func figures(p string, docs map[string]string) (bad []string) {
	_, text, _ := strings.Cut(docs[p], "\n## Results\n")
	text, _, _ = strings.Cut(text, "\n## ")
	known := map[string]bool{}
	pages := 0
	for _, l := range linksOf(text) {
		if page := path.Join(path.Dir(p), l.target); strings.HasPrefix(page, "docs/results/") && docs[page] != "" {
			pages++
			for _, n := range figure.FindAllString(docs[page], -1) {
				known[n] = true
			}
		}
	}
	if pages == 0 {
		return []string{p + ": section Results links no page of docs/results"}
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for _, n := range figure.FindAllString(codeSpan.ReplaceAllString(line, ""), -1) {
			if !known[n] {
				bad = append(bad, fmt.Sprintf("%s: %s in section Results is not on its page of docs/results", p, n))
			}
		}
	}
	return bad
}

var (
	namedTest = regexp.MustCompile("`((?:Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9]*)[`/]")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
)

// tests checks that the code has the tests and benchmarks that texts name in code spans.
func tests(docs, code map[string]string) (bad []string) {
	known := map[string]bool{}
	for _, text := range code {
		for _, m := range testFunc.FindAllStringSubmatch(text, -1) {
			known[m[1]] = true
		}
	}
	for _, p := range slices.Sorted(maps.Keys(docs)) {
		for _, m := range namedTest.FindAllStringSubmatch(docs[p], -1) {
			if !known[m[1]] {
				bad = append(bad, p+": no test "+m[1])
			}
		}
	}
	return bad
}
