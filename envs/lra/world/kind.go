package world

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// Kind is a class of nodes, with its lookup tables.
type Kind struct {
	Plan       *planner.Model   // by the table that planners see
	Forbidding []*planner.Model // Plan for each set of forbidden applications, by bits in the order of restrict
	Score      *planner.Model   // by the table of the rewards
	Throughput [lra.NumStates]float64

	rates     *lra.Table // of the rewards, at speed 1; nil without a cluster
	satisfied [lra.NumStates]int
	dues      [lra.NumStates]float64 // reward gap: subtracted from the objective of the score table; 0 otherwise
	gains     [lra.NumApps + 1][lra.NumStates]float32
	open      [lra.NumApps + 1][lra.NumStates]bool // for a container of the application, restrictions aside
	rows      []float32                            // features of a node: (NumApps+1, NumStates, NodeFeatures); the last application is NoApp
}

func (s *Source) newKind(class planner.Class, score *lra.Table) (*Kind, error) {
	objective := planner.Objective{Kind: s.Options.Objective, Threshold: s.Options.SLOThreshold}
	if objective.Kind == planner.ObjectiveVacant {
		objective.NodeCost = s.Options.Beta * s.Scale / float64(s.Options.Nodes)
	}
	k := &Kind{rates: score}
	var err error
	for forbidden := range 1 << len(s.limits) {
		c := class
		for i, l := range s.limits {
			c.Forbidden[l.app] = forbidden>>i&1 == 1
		}
		m, err := planner.NewModel(s.table, c, objective)
		if err != nil {
			return nil, err
		}
		k.Forbidding = append(k.Forbidding, m)
	}
	k.Plan = k.Forbidding[0]
	if k.Score, err = planner.NewModel(score, class, objective); err != nil {
		return nil, err
	}
	for st := range lra.State(lra.NumStates) {
		k.Throughput[st] = class.Speed * score.Total[st]
		k.satisfied[st] = score.SLO(st, s.Options.SLOThreshold/class.Speed)
	}
	return k, nil
}

// NewKindSource returns a Source of n nodes with only m, for episodes without a cluster.
func NewKindSource(m *planner.Model, n int) *Source {
	s := &Source{Options: DefaultOptions(), Class: make([]int, n), Slots: n * m.Class.Slots}
	s.Options.Nodes = n
	s.Kinds = []*Kind{{Plan: m, Forbidding: []*planner.Model{m}, Score: m}}
	s.features()
	return s
}

// features prepares the rows of the observation of nodes: for each kind of node, application
// and state.
func (s *Source) features() {
	var largest float64
	for _, k := range s.Kinds {
		k.rows = make([]float32, (lra.NumApps+1)*lra.NumStates*NodeFeatures)
		largest = max(largest, k.Plan.Class.Speed)
		for app := range lra.NumApps + 1 {
			for st := range lra.State(lra.NumStates) {
				row := k.Row(app, st)
				for a, n := range st.Counts() {
					row[a] = float32(n) / lra.MaxSlots
				}
				row[lra.NumApps] = float32(max(0, k.Plan.Class.Slots-st.Total())) / lra.MaxSlots
				row[lra.NumApps+1] = float32(k.Plan.Value[st] / lra.MaxSlots)
				if app != NoApp && k.Plan.Next[st][app] != lra.NoState {
					row[GainFeature] = float32(k.Plan.Value[k.Plan.Next[st][app]] - k.Plan.Value[st])
					k.gains[app][st], k.open[app][st] = row[GainFeature], true
				}
				row[lra.NumApps+3] = float32(k.Plan.Class.Speed)
				for _, v := range row[lra.NumApps+1:] {
					largest = max(largest, math.Abs(float64(v)))
				}
			}
		}
	}
	s.Bound = float32(math.Ceil(largest))
}

// Row returns the features of a node in state s for a container of app.
func (k *Kind) Row(app int, s lra.State) []float32 {
	at := (app*lra.NumStates + int(s)) * NodeFeatures
	return k.rows[at : at+NodeFeatures : at+NodeFeatures]
}

// Rate returns the throughput of one container of app in state s.
func (k *Kind) Rate(s lra.State, app int) float64 { return k.Score.Class.Speed * k.rates.RPS[s][app] }
