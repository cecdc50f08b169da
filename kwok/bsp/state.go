package bsp

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/kubernasium/kubernasium/models"
)

// profileStateVersion is the version of the file's layout.
const profileStateVersion = 1

// profileState holds the measurements of a profile. Its file is replaced atomically after each measurement, so
// that it stays consistent if the process dies.
type profileState struct {
	Version      int           `json:"version"`
	Setting      string        `json:"setting"`      // setting of the executor
	Measurements []Measurement `json:"measurements"` // in the order of measurement
}

// Measurement is the duration of a work with a share.
type Measurement struct {
	Task     string  `json:"task"`
	Work     string  `json:"work"` // as [Work.String] gives it
	Size     float64 `json:"size"`
	MilliCPU float64 `json:"milli_cpu"`
	Seconds  float64 `json:"seconds"`
}

// openProfileState reads the file of measurements of a setting, or starts a new one.
func openProfileState(path, setting string, works []Work) (*profileState, error) {
	s := &profileState{Version: profileStateVersion, Setting: setting, Measurements: []Measurement{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	have := &profileState{}
	if err := json.Unmarshal(text, have); err != nil {
		return nil, fmt.Errorf("bsp: %s is no file of measurements: %w", path, err)
	}
	if have.Version != profileStateVersion {
		return nil, fmt.Errorf("bsp: %s has version %d, want %d", path, have.Version, profileStateVersion)
	}
	if have.Setting != setting {
		return nil, fmt.Errorf("bsp: %s has measurements by %q, which cannot be put together with those by %q: name another file, or use that", path, have.Setting, setting)
	}
	for _, m := range have.Measurements {
		if !(m.Seconds > 0) {
			return nil, fmt.Errorf("bsp: %s: %s took %v s, want more than 0", path, m.Task, m.Seconds)
		}
		for _, w := range works {
			if w.Task == m.Task && w.String() != m.Work {
				return nil, fmt.Errorf("bsp: %s has measurements of %s, which cannot be put together with those of %s: name another file", path, m.Work, w)
			}
		}
	}
	return have, nil
}

func (s *profileState) write(path string) error {
	return models.WriteFileAtomic(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(s) })
}

// WriteCSV writes the means of the measured points in the format that package profile reads.
func (m *Measured) WriteCSV(w io.Writer) error {
	rows := [][]string{{"Task Name", "Workload Size", "CPU Shares", "Duration"}}
	text := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, p := range m.Points {
		rows = append(rows, []string{p.Task, text(p.Size), text(p.MilliCPU), text(p.Mean)})
	}
	return csv.NewWriter(w).WriteAll(rows)
}
