package main

import (
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

var boldNumber = regexp.MustCompile(`\*\*(\d[\d.]*)\*\*`)

// wins returns the figures in print that are wins by docs/results/method.md: of a part of tools/tables whose
// record, a table of compare with every baseline, calls the training or its one model better, as does the table of the
// sealed block if it has been played.
func wins(t *testing.T) map[string]bool {
	t.Helper()
	won := map[string]bool{}
	for name, part := range resultsParts(t) {
		if part.Record == "" {
			continue
		}
		if strings.Contains(part.Evaluate, "--baseline") {
			t.Errorf("%s: its record is of some baselines, want all", name)
		}
		if wonBy(t, filepath.Join("..", part.Record), part.Expect["mean"]) && (part.Sealed == nil || trainingVerdict(t, part.Sealed.Table) == "better") {
			won[part.Expect["mean"]] = true
		}
	}
	return won
}

// wonBy reports whether a table of compare calls the training or model with this mean better.
func wonBy(t *testing.T, path, mean string) bool {
	t.Helper()
	rows, verdict := comparison(t, path)
	won, clairvoyant, baselines := false, 0, 0
	for _, row := range rows {
		switch {
		case strings.HasSuffix(row[0], "(clairvoyant)"):
			clairvoyant++
		case row[verdict] == "":
			baselines++
		case rounds(row[1], mean):
			won = won || row[verdict] == "better"
		}
	}
	if baselines < 2 {
		t.Errorf("%s has %d baselines and %d clairvoyant, want all of the environment", path, baselines, clairvoyant)
	}
	return won
}

// TestBoldIsAWin: bold figures in tables of scores of README.md, docs/results and the environments are wins by a
// record, and the bold policies of cards are those that the card's verdicts call better. Forecasters' errors,
// the tables by series, are no scores of policies.
func TestBoldIsAWin(t *testing.T) {
	won := wins(t)
	bold := 0
	for _, pattern := range []string{"README.md", "docs/results/*.md", "envs/*/README.md", "envs/*/*/README.md"} {
		paths, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			header := ""
			for line := range strings.Lines(envstest.Read(t, path)) {
				switch {
				case !strings.HasPrefix(line, "|"):
					header = ""
					continue
				case header == "":
					header = line
				}
				for _, m := range boldNumber.FindAllStringSubmatch(line, -1) {
					if strings.HasPrefix(header, "| series ") {
						continue
					}
					bold++
					if !won[m[1]] {
						t.Errorf("%s prints %s bold, but no record of tools/tables calls it better than every baseline", path, m[1])
					}
				}
			}
		}
	}
	if bold != 3*len(won) || bold == 0 { // README.md, the page and the environment's README
		t.Errorf("%d bold figures of %d wins, want each in three places", bold, len(won))
	}
	checkCards(t)
}

var (
	boldPolicy = regexp.MustCompile(`(?m)^\| \*\*(\S+)\*\* `)
	better     = regexp.MustCompile(`(?m)^- (\S+) is better than the best baseline, `)
)

// checkCards compares bold policies with verdicts; verdicts with a corrected p-value are those of method.md. A card has every
// policy that played the sealed block with its models, so that its best baseline is the best of all.
func checkCards(t *testing.T) {
	t.Helper()
	cards, err := filepath.Glob("../models/pretrained/*/card.md")
	if err != nil || len(cards) < 10 {
		t.Fatalf("%d cards, %v", len(cards), err)
	}
	for _, path := range cards {
		text := envstest.Read(t, path)
		first := func(found [][]string) (names string) {
			for _, m := range found {
				names += m[1] + " "
			}
			return names
		}
		if b, v := first(boldPolicy.FindAllStringSubmatch(text, -1)), first(better.FindAllStringSubmatch(text, -1)); b != v {
			t.Errorf("%s: bold is %q, better by verdict is %q", path, b, v)
		}
		if strings.Contains(text, "95 % interval of the paired difference excludes 0") || !strings.Contains(text, "(constant action)") {
			t.Errorf("%s: its verdicts are not those of docs/results/method.md, or it has no state test: make it anew by trainer card", path)
		}
		sealed := filepath.Join("../docs/results/sealed", filepath.Base(filepath.Dir(path))+".csv")
		if _, err := os.Stat(sealed); err != nil {
			continue // only trainings of several seeds played the block
		}
		_, rows := csvRows(t, sealed)
		for _, row := range rows {
			if !strings.Contains(text, "\n| "+row[0]+" ") && !strings.Contains(text, "\n| **"+row[0]+"** ") {
				t.Errorf("%s lacks %s, which is in %s: make it anew by trainer card", path, row[0], sealed)
			}
		}
	}
}

// rounds reports whether number, of more digits, rounds to the one in print.
func rounds(number, printed string) bool {
	n, ok := new(big.Rat).SetString(number)
	if !ok {
		return false
	}
	_, decimals, _ := strings.Cut(printed, ".")
	return n.FloatString(len(decimals)) == printed
}
