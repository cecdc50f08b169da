package profile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
	"github.com/kubernasium/kubernasium/models"
)

// stateVersion is the version of the file's layout.
const stateVersion = 1

// state holds the measurements of a collection, and what a resumed collection needs. Its file is replaced
// atomically after each measurement, so that it stays consistent if the process dies.
type state struct {
	Version   int      `json:"version"`
	Apps      []string `json:"apps"`    // nodes in the order of their numbers
	Setting   string   `json:"setting"` // setting of the load, and the warm-up time
	Namespace string   `json:"namespace,omitempty"`
	// Measurements are in the order in which they ended.
	Measurements []measurement `json:"measurements"`
}

// measurement is the result of one combination. Throughputs are the load's answers, averaged over the
// containers of an application.
type measurement struct {
	Counts lra.Counts           `json:"counts"`
	Try    int                  `json:"try"`
	RPS    [lra.NumApps]float64 `json:"rps"`
	RT50   [lra.NumApps]float64 `json:"rt50"`
	RT99   [lra.NumApps]float64 `json:"rt99"`
}

// openState reads the state of a collection with the same setting, or starts a new one.
func openState(path, setting string) (*state, error) {
	s := &state{Version: stateVersion, Apps: lra.Apps[:], Setting: setting, Measurements: []measurement{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	have := &state{}
	if err := json.Unmarshal(text, have); err != nil {
		return nil, fmt.Errorf("profile: %s is no state of a collection: %w", path, err)
	}
	if have.Version != stateVersion || !slices.Equal(have.Apps, s.Apps) {
		return nil, fmt.Errorf("profile: %s has version %d and applications %q, want %d and %q", path, have.Version, have.Apps, stateVersion, s.Apps)
	}
	if have.Setting != setting {
		return nil, fmt.Errorf("profile: %s has measurements by %q, which cannot be put together with those by %q: name another file, or the same load", path, have.Setting, setting)
	}
	for _, m := range have.Measurements {
		if _, err := lra.StateOf(m.Counts); err != nil {
			return nil, fmt.Errorf("profile: %s: %w", path, err)
		}
	}
	return have, nil
}

func (s *state) write(path string) error {
	return models.WriteFileAtomic(path, func(w io.Writer) error {
		return json.NewEncoder(w).Encode(s)
	})
}

// profile returns the measurements relative to the mean of the same application alone, in the order
// of states and tries.
func (s *state) profile() ([]throughput.Measurement, error) {
	var sum, number [lra.NumApps]float64
	for _, m := range s.Measurements {
		for a, k := range m.Counts {
			if k == 1 && m.Counts.Total() == 1 {
				sum[a] += m.RPS[a]
				number[a]++
			}
		}
	}
	sorted := slices.Clone(s.Measurements)
	slices.SortFunc(sorted, func(x, y measurement) int {
		a, _ := lra.StateOf(x.Counts) // openState has checked them
		b, _ := lra.StateOf(y.Counts)
		return cmp.Or(int(a)-int(b), x.Try-y.Try)
	})
	all := make([]throughput.Measurement, 0, len(sorted))
	for _, m := range sorted {
		row := throughput.Measurement{Counts: m.Counts, RT50: m.RT50, RT99: m.RT99}
		for a, k := range m.Counts {
			if k == 0 {
				continue
			}
			if number[a] == 0 {
				return nil, fmt.Errorf("profile: %s was measured beside others but not alone", lra.Apps[a])
			}
			row.RPS[a] = m.RPS[a] / (sum[a] / number[a])
		}
		all = append(all, row)
	}
	return all, nil
}
