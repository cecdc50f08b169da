package run

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// logs are the log files of a training.
type logs struct {
	events      *tracking.EventWriter
	progress    *tracking.ProgressCSV
	monitor     *tracking.MonitorCSV
	evaluations *tracking.EvaluationsCSV
}

// openLogs opens the logs of a training that resumes at step, and drops later rows. For step tracking.NewRun it
// starts new logs.
func openLogs(folder, env string, step int64) (l *logs, err error) {
	l = &logs{}
	if step == tracking.NewRun {
		l.events, err = tracking.NewEventWriter(folder, nil)
	} else {
		l.events, err = tracking.ResumeEventWriter(folder, step, nil)
	}
	if err != nil {
		return nil, err
	}
	if l.progress, err = tracking.OpenProgressCSV(filepath.Join(folder, "progress.csv"), step); err != nil {
		return nil, errors.Join(err, l.close())
	}
	if l.monitor, err = tracking.OpenMonitorCSV(filepath.Join(folder, "monitor.csv"), env, time.Now(), step); err != nil {
		return nil, errors.Join(err, l.close())
	}
	if l.evaluations, err = tracking.OpenEvaluationsCSV(filepath.Join(folder, "evaluations.csv"), step); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// write logs the metrics of an update, and histograms, which only TensorBoard shows.
func (l *logs) write(step int64, metrics agents.Metrics, histograms map[string]tracking.Histogram) error {
	if err := l.events.Scalars(step, metrics); err != nil {
		return err
	}
	if err := l.events.Histograms(step, histograms); err != nil {
		return err
	}
	if err := l.events.Flush(); err != nil {
		return err
	}
	return l.progress.Write(step, metrics)
}

// close closes the open files.
func (l *logs) close() error {
	var errs []error
	if l.events != nil {
		errs = append(errs, l.events.Close())
	}
	if l.progress != nil {
		errs = append(errs, l.progress.Close())
	}
	if l.monitor != nil {
		errs = append(errs, l.monitor.Close())
	}
	if l.evaluations != nil {
		errs = append(errs, l.evaluations.Close())
	}
	return errors.Join(errs...)
}

// readEvaluations returns the best mean and the evaluations up to step from the logs.
func readEvaluations(path string, step int) (best float64, curve []Evaluation, err error) {
	best = math.Inf(-1)
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return best, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	rows := csv.NewReader(f)
	rows.FieldsPerRecord = -1
	records, err := rows.ReadAll()
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", path, err)
	}
	const firstReturn = 4 // the columns after timesteps, mean, std and episodes
	for i, rec := range records {
		if i == 0 || len(rec) <= firstReturn {
			continue
		}
		at, err := strconv.Atoi(rec[0])
		if err != nil {
			return 0, nil, fmt.Errorf("%s: line %d: timesteps %q is no number", path, i+1, rec[0])
		}
		if at > step {
			break
		}
		c := Evaluation{Step: at}
		for _, field := range rec[firstReturn:] {
			v, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return 0, nil, fmt.Errorf("%s: line %d: return %q is no number", path, i+1, field)
			}
			c.Returns = append(c.Returns, v)
		}
		best = max(best, tracking.Mean(c.Returns))
		curve = append(curve, c)
	}
	return best, curve, nil
}
