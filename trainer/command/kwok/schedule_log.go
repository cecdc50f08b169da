package kwok

import (
	"errors"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// histogramSize is the number of placements in a histogram.
const histogramSize = 50

// placementLog writes a scheduler's actions as TensorBoard tags, with the number of placed pods as the step:
// scheduler/imbalance for each, and histograms of scheduler/placements_by_node.
type placementLog struct {
	events *tracking.EventWriter
	placed int64
	nodes  []float64 // since the last histogram
	err    error     // the first one
}

func newPlacementLog(folder string) (*placementLog, error) {
	w, err := tracking.NewEventWriter(folder, nil)
	if err != nil {
		return nil, err
	}
	return &placementLog{events: w}, nil
}

// add adds a placement.
func (l *placementLog) add(p kwok.Placement) {
	l.placed++
	l.nodes = append(l.nodes, float64(p.Node))
	l.note(l.events.Scalars(l.placed, map[string]float64{"scheduler/imbalance": p.Imbalance}))
	if len(l.nodes) >= histogramSize {
		l.histogram()
	}
	l.note(l.events.Flush())
}

func (l *placementLog) histogram() {
	l.note(l.events.Histograms(l.placed, map[string]tracking.Histogram{"scheduler/placements_by_node": tracking.IntegerHistogram(l.nodes)}))
	l.nodes = l.nodes[:0]
}

// note keeps the first error. An error of the log does not stop the scheduler.
func (l *placementLog) note(err error) {
	if l.err == nil {
		l.err = err
	}
}

// close writes the remaining placements and returns the first error.
func (l *placementLog) close() error {
	l.histogram()
	return errors.Join(l.err, l.events.Close())
}
