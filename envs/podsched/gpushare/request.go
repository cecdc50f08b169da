package gpushare

// Request is a pod for [Simulate].
type Request struct {
	Name string
	Shape

	// Group is a key that pods share if all that follows is equal for them, and their shapes.
	Group string

	Refusals []string // by node: why it is closed to the pod, whatever is free there, or ""; nil refuses none
	Profile  int      // of those given to Simulate
	Node     int      // that it is bound to already, or -1
	Devices  []int    // of that node that it has; nil takes those of best fit

	// Requests beyond those of Shape that NodeResourcesFit counts where containers state none.
	ExtraMilliCPU, ExtraMemoryMiB int64

	Taints   []int64 // by node: taints PreferNoSchedule that it does not tolerate; nil is none
	Affinity []int64 // by node: sum of the weights of the preferred terms that the node matches; nil is none
	Images   []int64 // by node: score of ImageLocality; nil is none
	Counted  []int32 // counters of topology spread, from 0, that it counts in
	Spread   []Spread
}

// Spread is a topology spread constraint ScheduleAnyway.
type Spread struct {
	Counter int32   // of the pods that it spreads
	Domain  []int32 // by node, from 0; -1 where the node lacks the key; nil: each node is a domain
	MaxSkew int
	System  bool // a default of the scheduler, to which a node that lacks the key is no worse
}
