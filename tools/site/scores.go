package main

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
)

var (
	colours = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]") // escape codes of a terminal
	scored  = regexp.MustCompile("^\\| `([^`]+)`")
	link    = regexp.MustCompile(`\]\(([^)#:]+)`)
)

// readmeScores returns the table of scores in README.md by id: the header, then the rows of that id. A row that
// begins with … belongs to the id above it.
func readmeScores() (map[string][][]string, error) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		return nil, err
	}
	_, table, found := strings.Cut(string(text), "\n| environment |")
	if !found {
		return nil, fmt.Errorf("README.md has no table of scores")
	}
	table, _, _ = strings.Cut("| environment |"+table, "\n\n")
	lines := strings.Split(strings.TrimSpace(table), "\n")
	scores := map[string][][]string{}
	id := ""
	for _, line := range lines[2:] {
		if m := scored.FindStringSubmatch(line); m != nil {
			id = m[1]
		}
		if id == "" {
			return nil, fmt.Errorf("README.md: a row of scores without an id: %s", line)
		}
		if scores[id] == nil {
			scores[id] = [][]string{cells(lines[0])}
		}
		scores[id] = append(scores[id], cells(fromRoot(line, ".")))
	}
	return scores, nil
}

// cells splits a row of a table.
func cells(line string) []string {
	all := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// fromRoot makes the relative links of a text in folder relative to the repository's root.
func fromRoot(text, folder string) string {
	return link.ReplaceAllStringFunc(text, func(m string) string { return "](/" + path.Join(folder, m[2:]) })
}
