package bsp

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Work is the work of a real task: a stress-ng stressor, whose number of operations is proportional to the
// workload size.
type Work struct {
	Task string  // name of the stressor
	Ops  float64 // operations for a workload of size 1
}

// Limits of work.
const (
	maxOps   = 1e8 // of a superstep, by stress-ng
	maxTasks = 256
)

// unitOps holds the operations that take about 50 ms of one core of a 2.9 GHz Xeon, with stress-ng
// 0.15.06 on two cores. The tasks are those of Kube_Gang_Scheduling (E. Wang, 2021).
var unitOps = map[string]float64{
	"affinity": 1700, "atomic": 50, "bsearch": 12, "cap": 4000, "chmod": 80, "memcpy": 9, "vecmath": 160, "zero": 375,
}

var stressorName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// ParseWorks reads works of the form NAME or NAME:OPS: a stress-ng stressor and its operations for a workload
// of size 1.
func ParseWorks(texts []string) ([]Work, error) {
	if len(texts) == 0 || len(texts) > maxTasks {
		return nil, fmt.Errorf("bsp: %d workloads, want 1 to %d", len(texts), maxTasks)
	}
	works := make([]Work, 0, len(texts))
	for _, text := range texts {
		name, ops, given := strings.Cut(text, ":")
		w := Work{Task: name, Ops: unitOps[name]}
		switch {
		case !stressorName.MatchString(name):
			return nil, fmt.Errorf("bsp: workload %q, want a stressor of stress-ng, as in memcpy or memcpy:9", text)
		case slices.ContainsFunc(works, func(x Work) bool { return x.Task == name }):
			return nil, fmt.Errorf("bsp: two workloads %s, want one", name)
		case !given && w.Ops == 0:
			return nil, fmt.Errorf("bsp: workload %s has no number of operations, want %s:OPS, those for size 1", name, name)
		case given:
			var err error
			if w.Ops, err = strconv.ParseFloat(ops, 64); err != nil || !(w.Ops > 0 && w.Ops <= maxOps) {
				return nil, fmt.Errorf("bsp: workload %s with %q operations for size 1, want a number above 0 and up to %g", name, ops, float64(maxOps))
			}
		}
		works = append(works, w)
	}
	return works, nil
}

// String returns w in the form that [ParseWorks] reads.
func (w Work) String() string { return w.Task + ":" + strconv.FormatFloat(w.Ops, 'g', -1, 64) }

// Count returns the number of operations for a workload size, at least 1.
func (w Work) Count(size float64) (int64, error) {
	n := math.Round(w.Ops * size)
	if !(n <= maxOps) {
		return 0, fmt.Errorf("bsp: workload %s of size %v has %g operations, want at most %g", w.Task, size, n, float64(maxOps))
	}
	return int64(max(n, 1)), nil
}

// Args returns the arguments of stress-ng except the last, the number of operations. stress-ng runs an instance
// on each online core and keeps its files in folder temp.
func (w Work) Args(temp string) []string {
	return []string{"--quiet", "--oomable", "--temp-path", temp, "--" + w.Task, "0", "--" + w.Task + "-ops"}
}
