package gpushare

// Request is a pod of a [Simulation].
type Request struct {
	Name string
	Shape

	// Group is a key that pods share if their shapes and all following fields are equal.
	Group string

	Refusals []string // by node: why it rejects the pod regardless of free resources, or ""; nil rejects none
	Profile  int      // index of the profile
	Node     int      // that it is already bound to, or -1
	Devices  []int    // its devices on that node; nil selects those of best fit

	// What NodeResourcesFit adds to the requests of Shape for containers that state none.
	ExtraMilliCPU, ExtraMemoryMiB int64

	Taints   []int64 // by node: number of untolerated PreferNoSchedule taints; nil is none
	Affinity []int64 // by node: sum of the weights of the matching preferred terms; nil is none
	Images   []int64 // by node: score of ImageLocality; nil is none
	Counted  []int32 // counters of topology spread, from 0, that it counts in
	Spread   []Spread
}

// Spread is a topology spread constraint ScheduleAnyway.
type Spread struct {
	Counter int32   // of the pods that it spreads
	Domain  []int32 // by node, from 0; -1: the node lacks the key; nil: each node is a domain
	MaxSkew int
	System  bool // a default of the scheduler, which does not penalize nodes without the key
}
