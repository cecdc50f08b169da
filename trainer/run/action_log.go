package run

import (
	"fmt"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// imbalanceColumn is the column of Info in which an environment reports its cluster's imbalance.
const imbalanceColumn = "imbalance"

// Tags of the distribution of actions. If an action has several numbers, the tag of each ends with its index.
const (
	actionsTag    = "rollout/actions"
	placementsTag = "rollout/placements_by_node" // if an action chooses a node; waiting does not count
	imbalanceTag  = "rollout/imbalance"          // mean over the steps
)

// actionLog collects the actions of a training between two rows of its logs.
type actionLog struct {
	tag        string
	nodes      int // nodes that an action chooses among; 0 if it chooses no node
	continuous bool
	values     [][]float64 // by number of an action

	column, columns int // of the imbalance; -1 if there is none
	imbalance       float64
	steps           int
}

func newActionLog(v envs.VecEnv) *actionLog {
	obs, act := v.Spaces()
	spec := v.Spec()
	l := &actionLog{tag: actionsTag, values: make([][]float64, act.Size()), column: spec.Column(imbalanceColumn), columns: len(spec.Info)}
	if nodes, _, err := policies.Nodes(obs, act); err == nil {
		l.tag, l.nodes = placementsTag, nodes.N
	}
	_, l.continuous = act.(space.Box)
	return l
}

// record adds a step: actions, and next, the batch that they led to.
func (l *actionLog) record(actions []float32, next *envs.Batch) {
	size := len(l.values)
	for i := range next.Reward {
		for k := range size {
			a := float64(actions[i*size+k])
			if l.nodes > 0 && (next.Invalid[i] || int(a) >= l.nodes) {
				continue // no placement
			}
			l.values[k] = append(l.values[k], a)
		}
		if l.column < 0 || len(next.Info) != len(next.Reward)*l.columns {
			continue
		}
		info := next.Info
		if next.Done(i) {
			info = next.FinalInfo
		}
		l.imbalance += info[i*l.columns+l.column]
		l.steps++
	}
}

// take returns the histograms, adds the imbalance to metrics, and resets the log.
func (l *actionLog) take(metrics agents.Metrics) map[string]tracking.Histogram {
	if l.steps > 0 {
		metrics[imbalanceTag] = l.imbalance / float64(l.steps)
	}
	l.imbalance, l.steps = 0, 0
	histograms := map[string]tracking.Histogram{}
	for k, values := range l.values {
		tag := l.tag
		if len(l.values) > 1 {
			tag = fmt.Sprintf("%s_%d", tag, k)
		}
		if l.continuous {
			histograms[tag] = tracking.ContinuousHistogram(values)
		} else {
			histograms[tag] = tracking.IntegerHistogram(values)
		}
		l.values[k] = values[:0]
	}
	return histograms
}
