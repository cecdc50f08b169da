// Package recommender implements the recommender of the Kubernetes vertical pod autoscaler (VPA) in plain Go, and other
// recommenders to compare it with.
//
// From samples of a container's CPU and memory usage and from its OOM kills, a [Recommender] computes a lower bound, a
// target and an upper bound of its requests. With [DefaultConfig] they equal exactly those of the recommender of
// kubernetes/autoscaler (vertical-pod-autoscaler 1.8.1) with its default flags: the module in the folder oracle feeds
// both with random samples and compares. This package compiles no Kubernetes, reads no clock and allocates nothing per
// sample or recommendation.
//
//	r, err := recommender.New(recommender.DefaultConfig())
//	state := r.NewState(0)                 // the history of all pods of one controller
//	var container recommender.Container    // the state of one pod's container
//	container.AddCPU(state, now, 250)      // millicores
//	container.AddMemory(state, now, 1<<28) // bytes
//	var rec recommender.Recommendation
//	state.Recommend(&rec)
//
// # Units
//
// CPU is in whole millicores, memory in whole bytes. An instant is a [time.Duration] since the Unix epoch, at most a
// century before or after it; virtual time may begin at 0.
//
// # Algorithm
//
// CPU samples go into a histogram of 176 buckets that grow by 5 %, with weight 0.1. For memory, the peak of each window
// of 24 h goes into another, with weight 1. A weight halves every 24 h. An OOM kill counts as a usage of 1.2 times the
// container's memory, at least 100 MiB more. A percentile (lower 0.5, target 0.9, upper 0.95) is the upper edge of its
// bucket. A margin of 15 % is added; the bounds are multiplied by a factor that approaches 1 with the length of the
// history; and all amounts are raised to the minimum of 25 millicores and 250 MiB.
//
// # Other recommenders
//
// [KRRConfig] has the strategies simple and simple_limit of Robusta KRR, as functions of a usage
// history. [GuaranteedFrom] and [BurstableFrom] are the two variants of Fairwinds Goldilocks. [Autopilot] is the
// ensemble of models of Google's Autopilot.
//
// # Source
//
// github.com/kubernetes/autoscaler, vertical-pod-autoscaler/pkg/recommender; K. Rzadca et al.,
// "Autopilot: workload autoscaling at Google", EuroSys 2020; github.com/robusta-dev/krr;
// github.com/FairwindsOps/goldilocks.
package recommender
