// Package vpa implements vertical pod autoscaling, k8s/VerticalPodAutoscaler-v0, …-v1 and
// k8s/VerticalPodAutoscalerDiscrete-v0: an agent sets the CPU and memory requests of a controller's pods over time. In
// v1 the pods share their node with others, and the agent also sets limits; node/README.md describes v1 under the
// headings below.
//
// The agent replaces the recommender of the Kubernetes vertical pod autoscaler. Each minute it observes the pods' usage
// and gives bounds and targets. An updater that follows upstream's rules evicts pods or resizes them in place, and
// admission gives a new pod the target. A pod with too little is throttled or killed, one with too much is idle, and
// every change has a cost. Package workload generates and reads usage; package actions translates actions into
// recommendations; package pods simulates updater, admission and kubelet; package rules has the baselines; package
// recommender computes exactly the integers of upstream's recommender.
//
// # Action
//
// Continuous: Box(-1, 1, (8,)), lower bound, target, upper bound and uncapped target of CPU, and then the four of
// memory. With encoding log (default), x means the amount min·(max/min)^((x+1)/2) between the policy's least and
// greatest; with relative, 4^x times the peak of the last hour, or the policy's least if that is more; with upstream,
// 4^x times upstream's recommendation. A bound on the wrong side of its target is moved to the target, and info reports
// it (repaired). The uncapped target is recorded and has no effect, as in Kubernetes.
//
// Discrete: Discrete(49), 7·(factor of CPU) + (factor of memory), each of 0.5, 0.8, 0.95, 1,
// 1.05, 1.25, 2 by which the target in force is scaled. Both bounds are at the target, so that
// the updater acts; with both factors 1 (24) they are wide open, and requests stay. All actions
// are permitted at all times.
//
// Safety memory raises the memory of an action to upstream's and to the last day's peak, and the target to that peak
// and a margin. With hold N, an action holds for N steps; discrete factors scale the target once.
//
// # Observation
//
// Box(-1, 1, (29,)). Amounts are on a logarithmic scale, clipped to its ends: 1 m is 0 and 131 cores are 1; 1 MiB is 0
// and 1 TiB is 1. Of several pods, usage is the largest, and requests and limits are means.
//
//	index   meaning                                                        min  max
//	0       CPU used in the last step                                      0    1
//	1, 2    CPU requested; CPU limit, 1 for none                           0    1
//	3, 4    peak and mean of CPU used in the last hour                     0    1
//	5       peak of CPU used in the last day                               0    1
//	6       CPU target in force                                            0    1
//	7       CPU used over CPU requested; twice is 1                        0    1
//	8…15    the same of memory                                             0    1
//	16, 17  sine and cosine of the time of the day                         -1   1
//	18, 19  sine and cosine of the time of the week                        -1   1
//	20      fraction of the pods that serve                                0    1
//	21      fraction of the pods with a pending resize                     0    1
//	22      fraction of the last step's CPU demand that was throttled      0    1
//	23      … that came while the container was down                       0    1
//	24, 25  OOM kills and restarts since the reset; 10 are 1               0    1
//	26, 27  steps since the last OOM kill, the last eviction or resize;    0    1
//	        60 or none are 1
//	28      elapsed fraction of the episode                                0    1
//	29…44   amounts over upstream's target, if encoding is upstream or     -1   1
//	        safety memory; see README.md
//
// # Reward
//
// Minus the weighted sum of three costs, each in hours of the workload's mean demand, or of 0.01
// core if that is more. A GiB of memory counts as 1/7.5 core:
//
//	slack    CPU and memory requested and not used
//	overrun  CPU and memory used above the request; 10 times the CPU that was throttled, or that
//	         came while the container was down, or that a kill lost; 1 h for each OOM kill
//	change   0.25 h for each eviction, 0.02 h for each resize in place
//
// The option weighting sets the weights of slack, overrun and change: slack_heavy 4, 1, 1;
// equal 1, 1, 1; risk_heavy 1, 4, 1. Costs of kills and changes are for all pods of the
// controller; the cost of one pod of n is an n-th.
//
// # Start
//
// A workload is drawn. Its history, history_h hours, has been observed. Pods run with requests of
// the history's peak times a factor from initial_low to initial_high, drawn for each resource, and
// with limits in proportion.
//
// # End
//
// The episode is truncated after steps (1440) steps and never terminates.
//
// # Options
//
// See [Options]: the workload, or files; mode, rule and requirements of the updater; policy,
// LimitRange, node; weighting and encoding. Evaluations take split heldout: other workloads.
//
// # Baselines
//
// static, moving_window, seasonal_naive, upstream, goldilocks_guaranteed, goldilocks_burstable, krr_simple,
// krr_simple_limit; and with knowledge of the future, hindsight_max and hindsight_static. With parameters, which a name
// can give: quantile and autopilot. On the continuous environment they set exact amounts, beside the action. On the
// discrete one they take the nearest action that does not go below; under the same name with _exact they set exact
// amounts there too.
//
// # Versions
//
// v0: first version. v1, continuous: a shared node, on which exceeding requests has a price.
//
// # Source
//
// The idea: github.com/saeid93/smart-vpa. The updater, admission and recommender:
// github.com/kubernetes/autoscaler, vertical-pod-autoscaler, 1.8. The cost: K. Rzadca et al.,
// "Autopilot: workload autoscaling at Google", EuroSys 2020.
package vpa
