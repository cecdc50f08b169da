package published

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kubernasium/kubernasium/envs/dataset"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
)

// publishedFile is a table of results. It gives the controller of a row by the prefix of the first field; the rest of
// the field is the window.
type publishedFile struct {
	name  string
	mode  string
	label string // header of the first column
	rows  []publishedRow
}

type publishedRow struct {
	prefix     string
	mode       string // overrides the file's, if not empty
	controller string
	window     int // overrides the rest of the field, if not 0
	lambda     float64
}

var publishedFiles = []publishedFile{
	{"actual_400_results.csv", ModeActual, "Configuration Strategy", []publishedRow{
		{"EXPPO", ModeAny, planner.ControllerEXPPO, 0, 0},
		{"Static Window", "", planner.ControllerStatic, 0, 0},
		{"Dynamic MPC", "", planner.ControllerDynamicMPC, planner.DefaultHorizon, 1},
	}},
	{"forecast_400_results.csv", ModeForecast, "Configuration Strategy", []publishedRow{
		{"EXPPO", ModeAny, planner.ControllerEXPPO, 0, 0},
		{"Static Window", "", planner.ControllerStatic, 0, 0},
		{"Dynamic MPC", "", planner.ControllerDynamicMPC, planner.DefaultHorizon, planner.DefaultLambda},
	}},
	{"fork_Dynamic_MPC_results.csv", ModeForecast, "Horizon size", []publishedRow{
		{"Horizon size", "", planner.ControllerDynamicMPC, 0, planner.DefaultLambda},
	}},
	{"fork_Dynamic_Window_results.csv", ModeForecast, "Horizon size", []publishedRow{
		{"Horizon size", "", planner.ControllerDynamicWindow, 0, planner.DefaultLambda},
	}},
}

// publishedFixes holds the checkpoints of published rows whose total contradicts their duration. The row "Horizon size
// 7" of the fork's dynamic window repeats checkpoints and total of the row "Horizon size 3" of its MPC. Its duration
// belongs to 184 checkpoints, by the formula that gives the nine other rows.
var publishedFixes = map[Case]float64{
	{ModeForecast, planner.ControllerDynamicWindow, 7, planner.DefaultLambda, planner.DefaultPenalty, 400}: 184,
}

// readPublished returns the published totals in seconds below dir: those of the tables in its folder published, if it
// exists, and for cases without a table those that reference/totals.csv marks as equal to a published figure.
func readPublished(dir string) (map[Case]float64, error) {
	totals, err := dataset.ReadFile(filepath.Join(dir, "reference", "totals.csv"), parseReference)
	if errors.Is(err, os.ErrNotExist) {
		totals, err = make(map[Case]float64), nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "published")); errors.Is(err, os.ErrNotExist) {
		return totals, nil // a user's own workload, or a sample
	}
	for _, file := range publishedFiles {
		path := filepath.Join(dir, "published", file.name)
		if _, err := dataset.ReadFile(path, func(name string, r io.Reader) (any, error) {
			return nil, file.parse(name, r, totals)
		}); err != nil {
			return nil, err
		}
	}
	return totals, nil
}

func (p publishedFile) parse(name string, r io.Reader, totals map[Case]float64) error {
	t, err := dataset.Open("gang: ", name, r)
	if err != nil {
		return err
	}
	index, err := t.Columns(p.label, "Duration without Checkpoint Penalty", "Number of Checkpoints", "Total Duration")
	if err != nil {
		return err
	}
	for row, err := range t.Rows() {
		if err != nil {
			return err
		}
		c, err := p.caseOf(t, row[index[0]])
		if err != nil {
			return err
		}
		var v [3]float64
		if err := t.Numbers(v[:], row, index[1:]); err != nil {
			return err
		}
		if n, ok := publishedFixes[c]; ok {
			v[1], v[2] = n, v[0]+planner.DefaultPenalty*n
		}
		if math.Abs(v[0]+planner.DefaultPenalty*v[1]-v[2]) > 1e-6 {
			return t.Errorf("total %v, want duration and %v s for each of %v checkpoints", v[2], planner.DefaultPenalty, v[1])
		}
		totals[c] = v[2]
	}
	return nil
}

// caseOf returns the case that a row's label stands for.
func (p publishedFile) caseOf(t *dataset.Table, label string) (Case, error) {
	for _, row := range p.rows {
		rest, ok := strings.CutPrefix(label, row.prefix)
		if !ok {
			continue
		}
		c := Case{p.mode, row.controller, row.window, row.lambda, planner.DefaultPenalty, 400}
		if row.mode != "" {
			c.Mode = row.mode
		}
		if rest = strings.TrimSpace(rest); rest != "" {
			window, err := strconv.Atoi(rest)
			if err != nil {
				return Case{}, t.Errorf("%q does not end in a number", label)
			}
			c.Window = window
		}
		return c, nil
	}
	return Case{}, t.Errorf("%q is no known controller", label)
}

// parseReference returns the totals that a reference file marks as published.
func parseReference(name string, r io.Reader) (map[Case]float64, error) {
	totals := make(map[Case]float64)
	t, err := dataset.Open("gang: ", name, r)
	if err != nil {
		return nil, err
	}
	names := []string{"window", "length_punishment", "checkpoint_penalty", "steps", "total_s"}
	index, err := t.Columns(append([]string{"matches_published", "mode", "controller"}, names...)...)
	if err != nil {
		return nil, err
	}
	for row, err := range t.Rows() {
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(row[index[0]], "yes") {
			continue
		}
		var v [5]float64
		for i, name := range names {
			if row[index[i+3]] == "" {
				continue // a λ for a controller that has none
			}
			if v[i], err = t.Number(name, row[index[i+3]]); err != nil {
				return nil, err
			}
		}
		totals[Case{row[index[1]], row[index[2]], int(v[0]), v[1], v[2], int(v[3])}] = v[4]
	}
	return totals, nil
}
