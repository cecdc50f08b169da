package recommender

// Goldilocks runs the vertical pod autoscaler in mode Off and reports what its recommendation
// means for either class of quality of service.
//
// Source: github.com/FairwindsOps/goldilocks, README.md.

// GuaranteedFrom returns Goldilocks' requests for quality of service Guaranteed: request and
// limit are the target.
func GuaranteedFrom(b Bounds) Requests { return Requests{Request: b.Target, Limit: b.Target} }

// BurstableFrom returns Goldilocks' requests for quality of service Burstable: the request is
// the lower bound, the limit the upper bound.
func BurstableFrom(b Bounds) Requests { return Requests{Request: b.Lower, Limit: b.Upper} }
