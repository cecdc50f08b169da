package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

var (
	goBlock    = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	goImports  = regexp.MustCompile(`(?s)^import \(.*?\n\)\n`)
	fence      = regexp.MustCompile("(?ms)^```.*?^```$")
	makeCall   = regexp.MustCompile("(?m)(?:^    |`)make ([^`\n#]+)")
	makeTarget = regexp.MustCompile(`^[a-z][a-z0-9/-]*$`)
	makeRule   = regexp.MustCompile(`(?m)^([a-z][a-z0-9/ -]*):`)
)

// snippets checks the code in documents: an example that runs contains each block of Go, and the Makefile has
// each target of make. It skips tutorials, which make test-docs runs. Tests of the trainer and of the Python
// package run the trainer's commands and the blocks of Python.
func snippets(docs, code map[string]string, makefile string) (bad []string) {
	targets := map[string]bool{}
	for _, rule := range makeRule.FindAllStringSubmatch(makefile, -1) {
		for _, name := range strings.Fields(rule[1]) {
			targets[name] = true
		}
	}
	flat := make([]string, 0, len(code))
	for _, text := range code {
		if strings.Contains(text, "func Example") {
			flat = append(flat, strings.Join(strings.Fields(text), " "))
		}
	}
	for _, p := range slices.Sorted(maps.Keys(docs)) {
		if strings.HasPrefix(p, "docs/tutorials/") || p == "CHANGELOG.md" { // names targets that no longer exist
			continue
		}
		for _, m := range goBlock.FindAllStringSubmatch(docs[p], -1) {
			block := strings.Join(strings.Fields(goImports.ReplaceAllString(m[1], "")), " ")
			if !slices.ContainsFunc(flat, func(text string) bool { return runs(text, block) }) {
				bad = append(bad, p+": no example with an output has the block "+block[:min(60, len(block))])
			}
		}
		indented := fence.ReplaceAllStringFunc(docs[p], func(block string) string { return strings.ReplaceAll(block, "\n", "\n    ") })
		for _, m := range makeCall.FindAllStringSubmatch(indented, -1) {
			for _, word := range strings.Fields(m[1]) {
				if !makeTarget.MatchString(word) {
					break // a variable, or the end of the command
				}
				if !targets[word] {
					bad = append(bad, p+": make has no target "+word)
				}
			}
		}
	}
	return bad
}

// runs reports whether an example in a test file has the block and an output, so that go test runs it. Words of
// both texts are separated by single spaces.
func runs(text, block string) bool {
	before, after, ok := strings.Cut(text, " "+block+" ")
	if !ok {
		return false
	}
	function := before[max(strings.LastIndex(before, " func "), 0):]
	rest, _, _ := strings.Cut(after, " func ")
	return strings.HasPrefix(function, " func Example") && strings.Contains(rest, "// Output:")
}
