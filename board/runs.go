package board

import (
	"cmp"
	"encoding/csv"
	"errors"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// The files of a training that the page reads; docs/training.md describes them.
const (
	progressFile    = "progress.csv"
	evaluationsFile = "evaluations.csv"
	comparisonFile  = "comparison.csv"
	episodesFile    = "comparison_episodes.csv"
	configFile      = "config.yml"
)

// A Run names a training, or several that differ in their seed and were compared together.
type Run struct {
	ID       string    `json:"id"` // its folder below that of the logs, with slashes
	Modified time.Time `json:"modified"`
	Logged   bool      `json:"logged"`   // it has curves
	Compared bool      `json:"compared"` // it has a comparison
}

// A RunData holds what a training logged.
type RunData struct {
	Progress    Table          `json:"progress"`
	Evaluations Table          `json:"evaluations"`
	Comparison  [][]string     `json:"comparison,omitempty"` // rows of text, the first with the columns' names
	Config      map[string]any `json:"config,omitempty"`     // hyperparameters
	Paired      *Paired        `json:"paired,omitempty"`
}

// A Table holds columns of numbers; null where a cell is empty or not finite.
type Table struct {
	Columns []string     `json:"columns"`
	Values  [][]*float64 `json:"values"` // by column
}

// listRuns finds the trainings below a folder, newest first.
func listRuns(folder string) ([]Run, error) {
	runs := []Run{}
	if folder == "" {
		return runs, nil
	}
	found := map[string]*Run{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // a folder that is not there yet, or was removed while we looked
		case err != nil || d.Name() != progressFile && d.Name() != comparisonFile:
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil // removed while we looked
		}
		id, err := filepath.Rel(folder, filepath.Dir(path))
		r := found[id]
		if r == nil {
			r = &Run{ID: filepath.ToSlash(id)}
			found[id] = r
		}
		r.Logged = r.Logged || d.Name() == progressFile
		r.Compared = r.Compared || d.Name() == comparisonFile
		if info.ModTime().After(r.Modified) {
			r.Modified = info.ModTime()
		}
		return err
	})
	for _, r := range found {
		runs = append(runs, *r)
	}
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Or(b.Modified.Compare(a.Modified), strings.Compare(a.ID, b.ID)) })
	return runs, err
}

// look reads what is new of a training, and calls use with all of it. A training that runs may lack some.
func (s *Server) look(id string, use func(*runLog) error) error {
	if s.cfg.Logs == "" || !filepath.IsLocal(filepath.FromSlash(id)) {
		return &httpError{http.StatusNotFound, "no run " + strconv.Quote(id)}
	}
	dir := filepath.Join(s.cfg.Logs, filepath.FromSlash(id))
	if _, err := os.Stat(dir); err != nil {
		return &httpError{http.StatusNotFound, "no run " + strconv.Quote(id)}
	}
	return s.files.look(dir, use)
}

// readRun returns the logs of a training.
func (s *Server) readRun(id string) (run *RunData, err error) {
	err = s.look(id, func(l *runLog) error {
		run = &RunData{l.progress.since(0), l.evaluations.since(0), l.comparison, l.config, l.paired}
		return nil
	})
	return run, err
}

// readWhole reads the files of a training that are written at once, where they have changed.
func (l *runLog) readWhole(dir string) error {
	compared := dir
	if seedFolder.MatchString(dir) {
		if _, err := os.Stat(filepath.Join(dir, comparisonFile)); errors.Is(err, fs.ErrNotExist) {
			compared = filepath.Dir(dir)
		}
	}
	changed := false
	for _, path := range []string{filepath.Join(compared, comparisonFile), filepath.Join(compared, episodesFile), filepath.Join(dir, configFile)} {
		var stamp time.Time
		if info, err := os.Stat(path); err == nil {
			stamp = info.ModTime()
		}
		if old, known := l.stamps[path]; !known || !old.Equal(stamp) {
			l.stamps[path], changed = stamp, true
		}
	}
	if !changed {
		return nil
	}
	l.version++
	var err error
	if l.comparison, err = optional(readCSV(filepath.Join(compared, comparisonFile))); err != nil {
		return err
	}
	episodes, err := optional(readCSV(filepath.Join(compared, episodesFile)))
	if err != nil {
		return err
	}
	l.paired = pair(episodes, l.comparison)
	text, err := optional(os.ReadFile(filepath.Join(dir, configFile)))
	if err != nil {
		return err
	}
	l.config = nil
	return yaml.Unmarshal(text, &l.config)
}

// seedFolder matches one of several trainings, which were compared in the folder above.
var seedFolder = regexp.MustCompile(`seed_\d+$`)

// optional makes a missing file an empty one.
func optional[T any](v T, err error) (T, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil
	}
	return v, err
}

// readCSV reads rows of any lengths: a training adds columns as it logs more, and its last row may be
// half written.
func readCSV(path string) ([][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = -1
	r.Comment = '#'
	return r.ReadAll()
}

// numbers turns rows below their header into columns.
func numbers(rows [][]string) Table {
	t := Table{Columns: []string{}, Values: [][]*float64{}}
	if len(rows) == 0 {
		return t
	}
	t.Columns = rows[0]
	for c := range t.Columns {
		column := make([]*float64, len(rows)-1)
		for i, row := range rows[1:] {
			if c >= len(row) {
				continue
			}
			if v, err := strconv.ParseFloat(strings.TrimSpace(row[c]), 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
				column[i] = &v
			}
		}
		t.Values = append(t.Values, column)
	}
	return t
}
