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

// A Run identifies a training, or several trainings with different seeds that were compared together.
type Run struct {
	ID       string    `json:"id"` // path of its folder below that of the logs, with slashes
	Modified time.Time `json:"modified"`
	Logged   bool      `json:"logged"`   // it has curves
	Compared bool      `json:"compared"` // it has a comparison
}

// A RunData holds what a training logged.
type RunData struct {
	Progress    Table          `json:"progress"`
	Evaluations Table          `json:"evaluations"`
	Comparison  [][]string     `json:"comparison,omitempty"` // rows of text; the first has the columns' names
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
			return nil // the folder does not exist, or was removed meanwhile
		case err != nil || d.Name() != progressFile && d.Name() != comparisonFile:
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil // removed meanwhile
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

// withLogs reads the new logs of a training, and calls use with all logs. A running training may lack some files.
func (s *Server) withLogs(id string, use func(*runLog) error) error {
	if s.cfg.Logs == "" || !filepath.IsLocal(filepath.FromSlash(id)) {
		return &httpError{http.StatusNotFound, "no run " + strconv.Quote(id)}
	}
	dir := filepath.Join(s.cfg.Logs, filepath.FromSlash(id))
	if _, err := os.Stat(dir); err != nil {
		return &httpError{http.StatusNotFound, "no run " + strconv.Quote(id)}
	}
	return s.files.update(dir, use)
}

// readRun returns the logs of a training.
func (s *Server) readRun(id string) (run *RunData, err error) {
	err = s.withLogs(id, func(l *runLog) error {
		run = &RunData{l.progress.since(0), l.evaluations.since(0), l.comparison, l.config, l.paired}
		return nil
	})
	return run, err
}

// readWhole reads those files of a training that are written as a whole, if they have changed.
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

// seedFolder matches the folder of one of several trainings; their comparison is in the folder above.
var seedFolder = regexp.MustCompile(`seed_\d+$`)

// optional treats a missing file as empty.
func optional[T any](v T, err error) (T, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil
	}
	return v, err
}

// readCSV reads rows of any lengths: a training adds columns as it logs more metrics, and its last row may be
// incomplete.
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

// numbers converts rows, with a header, to columns.
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
