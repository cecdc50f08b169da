package tracking

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	progressStep = "time/total_timesteps"
	sheetStep    = "timesteps"
)

// NewRun is the step for Open functions that makes a log keep no earlier rows.
const NewRun = -1

// openRows opens a sheet without a preamble and drops the rows after step. It creates the file if it does not
// exist, and empties it for the step NewRun.
func openRows(path, stepColumn string, columns []string, step int64) (*sheet, error) {
	if step != NewRun {
		s, err := resumeSheet(path, stepColumn, step)
		if !nothingToResume(err) {
			return s, err
		}
	}
	return createSheet(path, "", columns)
}

func nothingToResume(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoHeader)
}

// ProgressCSV writes progress.csv: one row for each dump of the logger, one column for each key so far. It
// writes each row to the file at once. It is not safe for concurrent use.
type ProgressCSV struct{ *sheet }

// OpenProgressCSV opens the file at path and drops the rows after timestep step, or all rows for NewRun. It
// creates the file if it does not exist.
func OpenProgressCSV(path string, step int64) (*ProgressCSV, error) {
	s, err := openRows(path, progressStep, []string{progressStep}, step)
	if err != nil {
		return nil, err
	}
	return &ProgressCSV{s}, nil
}

// Write appends a row. The column time/total_timesteps is step, whatever values has under that key. New keys
// become new columns at the right, in sorted order.
func (p *ProgressCSV) Write(step int64, values map[string]float64) error {
	columns := append(make([]string, 0, len(values)+1), progressStep)
	cells := append(make([]string, 0, len(values)+1), strconv.FormatInt(step, 10))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if key != progressStep {
			columns = append(columns, key)
			cells = append(cells, formatCell(values[key]))
		}
	}
	return p.append(columns, cells)
}

// MonitorCSV writes monitor.csv: one row for each finished training episode. It writes each row to the file at
// once. It is not safe for concurrent use.
type MonitorCSV struct {
	*sheet
	start float64 // Unix seconds
}

var monitorColumns = []string{"r", "l", "t", sheetStep}

// monitorHead is the JSON object of the file's first line.
type monitorHead struct {
	Start float64 `json:"t_start"`
	EnvID string  `json:"env_id"`
}

// OpenMonitorCSV opens the file at path and drops the episodes that ended after timestep step, or all episodes
// for NewRun. A resumed file keeps its t_start; a file of another environment is an error. OpenMonitorCSV creates
// the file if it does not exist. start is when the run began.
func OpenMonitorCSV(path, envID string, start time.Time, step int64) (*MonitorCSV, error) {
	if step == NewRun {
		return createMonitorCSV(path, envID, start)
	}
	head, err := readMonitorHead(path)
	if nothingToResume(err) {
		return createMonitorCSV(path, envID, start)
	}
	if err != nil {
		return nil, fmt.Errorf("resume %s: %w", path, err)
	}
	if head.EnvID != envID {
		return nil, fmt.Errorf("resume %s: environment is %q, want %q", path, head.EnvID, envID)
	}
	s, err := resumeSheet(path, sheetStep, step)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(s.columns, monitorColumns) {
		err := fmt.Errorf("resume %s: columns are %q, want %q", path, s.columns, monitorColumns)
		return nil, errors.Join(err, s.Close())
	}
	return &MonitorCSV{sheet: s, start: head.Start}, nil
}

func createMonitorCSV(path, envID string, start time.Time) (*MonitorCSV, error) {
	id, err := json.Marshal(envID)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	seconds := float64(start.UnixNano()) / 1e9
	// The spaces are those of Python's json.dumps.
	head := fmt.Sprintf("#{\"t_start\": %s, \"env_id\": %s}\n", strconv.FormatFloat(seconds, 'f', -1, 64), id)
	s, err := createSheet(path, head, monitorColumns)
	if err != nil {
		return nil, err
	}
	return &MonitorCSV{sheet: s, start: seconds}, nil
}

func readMonitorHead(path string) (monitorHead, error) {
	var head monitorHead
	old, err := openSheet(path)
	if err != nil {
		return head, err
	}
	defer old.file.Close()
	text, ok := strings.CutPrefix(old.preamble, "#")
	if !ok {
		return head, errors.New(`first line lacks #{"t_start": ..., "env_id": ...}`)
	}
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		return head, fmt.Errorf("first line: %w", err)
	}
	return head, nil
}

// Episode appends a row for an episode of the given return and length in steps that ended at now, when the
// whole run had taken step steps. As in Stable-Baselines3, the return and the time are rounded to six decimals.
func (m *MonitorCSV) Episode(step int64, ret float64, length int, now time.Time) error {
	return m.append(monitorColumns, []string{
		formatCell(round6(ret)),
		strconv.Itoa(length),
		formatCell(round6(float64(now.UnixNano())/1e9 - m.start)),
		strconv.FormatInt(step, 10),
	})
}

func round6(v float64) float64 {
	if math.Abs(v) >= 1e9 { // v·1e6 would exceed the whole numbers that a float64 represents exactly
		return v
	}
	return math.Round(v*1e6) / 1e6
}

// EvaluationsCSV writes evaluations.csv: one row for each evaluation, with the return of each of its episodes.
// It writes each row to the file at once. It is not safe for concurrent use.
type EvaluationsCSV struct{ *sheet }

var evaluationColumns = []string{sheetStep, "mean", "std", "episodes"}

// OpenEvaluationsCSV opens the file at path and drops the evaluations after timestep step, or all evaluations
// for NewRun. It creates the file if it does not exist.
func OpenEvaluationsCSV(path string, step int64) (*EvaluationsCSV, error) {
	s, err := openRows(path, sheetStep, evaluationColumns, step)
	if err != nil {
		return nil, err
	}
	return &EvaluationsCSV{s}, nil
}

// Write appends the evaluation at timestep step, with the returns in episode order. std is the sample standard
// deviation, nan for a single episode.
func (e *EvaluationsCSV) Write(step int64, returns []float64) error {
	columns := append(make([]string, 0, len(returns)+4), evaluationColumns...)
	cells := append(make([]string, 0, len(returns)+4), strconv.FormatInt(step, 10),
		formatCell(Mean(returns)), formatCell(Std(returns)), strconv.Itoa(len(returns)))
	for i, r := range returns {
		columns = append(columns, "return_"+strconv.Itoa(i))
		cells = append(cells, formatCell(r))
	}
	return e.append(columns, cells)
}
