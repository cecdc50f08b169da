package lra

import "math"

// Features of a node, and of the batch.
const (
	nodeFeatures  = NumApps + 4   // counts, free slots, value, gain, speed
	batchFeatures = 2*NumApps + 3 // application, remaining, all remaining, used slots, violations left
	gainFeature   = NumApps + 2   // by how much the value of the node would grow
	noApp         = NumApps       // the application where there is no container to place
)

// features prepares the rows of the observation of nodes: for each kind of node, application
// and state.
func (s *source) features() {
	var largest float64
	for _, k := range s.kinds {
		k.rows = make([]float32, (NumApps+1)*NumStates*nodeFeatures)
		largest = max(largest, k.plan.Class.Speed)
		for app := range NumApps + 1 {
			for st := range State(NumStates) {
				row := k.row(app, st)
				for a, n := range st.Counts() {
					row[a] = float32(n) / MaxSlots
				}
				row[NumApps] = float32(max(0, k.plan.Class.Slots-st.Total())) / MaxSlots
				row[NumApps+1] = float32(k.plan.Value[st] / MaxSlots)
				if app != noApp && k.plan.Next[st][app] != NoState {
					row[gainFeature] = float32(k.plan.Value[k.plan.Next[st][app]] - k.plan.Value[st])
					k.gains[app][st], k.open[app][st] = row[gainFeature], true
				}
				row[NumApps+3] = float32(k.plan.Class.Speed)
				for _, v := range row[NumApps+1:] {
					largest = max(largest, math.Abs(float64(v)))
				}
			}
		}
	}
	s.bound = float32(math.Ceil(largest))
}

// row returns the features of a node in state s where a container of app is to be placed.
func (k *nodeKind) row(app int, s State) []float32 {
	at := (app*NumStates + int(s)) * nodeFeatures
	return k.rows[at : at+nodeFeatures : at+nodeFeatures]
}

// observeBatch writes the features of the batch: what is to be placed, and what is to come.
func (t *Task) observeBatch(dst []float32) {
	clear(dst)
	app := t.app()
	if app != noApp {
		dst[app] = 1
	}
	free := t.src.slots - t.used
	if t.heap == nil && free > 0 {
		all := 0
		for a, k := range t.left {
			dst[NumApps+a] = float32(k) / float32(free)
			all += k
		}
		dst[2*NumApps] = float32(all) / float32(free)
	}
	dst[2*NumApps+1] = float32(t.used) / float32(t.src.slots)
	if t.src.budget > 0 {
		dst[2*NumApps+2] = float32(t.src.budget-t.violations) / float32(t.src.budget)
	}
}
