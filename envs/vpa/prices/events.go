package prices

// Events sums the events of one step over pods. CPU is in millicores and memory in bytes, averaged over the step.
type Events struct {
	DemandCPU, ThrottledCPU, DownCPU float64 // of demand: all; refused at the limit; while the container was down
	RequestCPU, RequestMem           float64
	SlackCPU, SlackMem               float64 // requested and not used
	OverCPU, OverMem                 float64 // used above the request
	Lost                             float64 // core-seconds that OOM kills lost
	Harm                             float64 // to neighbours, in core-hours at the same prices
	OOMs, Evictions, Resizes         int
	NodeEvictions                    int // by kubelet; these also count as OOM kills and as evictions
	Restarts                         int // of containers: OOM kills, evictions, and resizes with RestartContainer
}

// Add adds another step.
func (a *Events) Add(s *Events) {
	a.DemandCPU += s.DemandCPU
	a.ThrottledCPU += s.ThrottledCPU
	a.DownCPU += s.DownCPU
	a.RequestCPU += s.RequestCPU
	a.RequestMem += s.RequestMem
	a.SlackCPU += s.SlackCPU
	a.SlackMem += s.SlackMem
	a.OverCPU += s.OverCPU
	a.OverMem += s.OverMem
	a.Lost += s.Lost
	a.Harm += s.Harm
	a.OOMs += s.OOMs
	a.Evictions += s.Evictions
	a.Resizes += s.Resizes
	a.NodeEvictions += s.NodeEvictions
	a.Restarts += s.Restarts
}
