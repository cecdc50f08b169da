// Package forecast implements k8s/GangForecast-v0: how to correct the forecasts that the planner of a
// bulk-synchronous job plans its CPU shares with.
//
// Job, episodes and costs are those of k8s/GangWindow-v0 (package gang). At each superstep dynamic_mpc
// decides whether to re-plan the shares, and for which window. Before that, the agent is asked once for each
// task and corrects the forecast of that task's sizes.
//
// # Action
//
// Box(-1, 1) with one value for each of the H = horizon supersteps (6) that the planner looks ahead. 1 adds
// correction (10 sizes) to the forecast; the sum stays within the range of sizes.
//
// # Observation
//
// Box(-1, 1), of the task that is asked about. Sizes other than the last one are differences to it, as
// parts of the range of sizes; 0 where a size is not known. With the defaults there are 89 values:
//
//	index            meaning                                                        min  max
//	0                size in the last superstep                                     0    1
//	1 … 7            sizes in the 7 supersteps before that                          -1   1
//	8 + h            forecast of superstep h from now                               -1   1
//	8 + H + (d-1)·   size d = 1 … 7 days before superstep j = -4 … H-1 from now;    -1   1
//	(H+4) + j + 4    the earliest day that is known stands for all before it
//	8 + H + 7·(H+4)  days known, over 7                                             0    1
//	then             steps of a day, over 144                                       0    1
//	                 predicted duration now, over that of the slowest task          0    1
//	                 share of the cores that the task has                           0    1
//	                 supersteps since the last plan, over 20; 1 before the first    0    1
//
// # Reward
//
// That of k8s/GangWindow-v0 after the correction of the last task, and 0 before it.
//
// # Start
//
// As in k8s/GangWindow-v0. What the agent sees of the time before the episode are rows of the same series.
//
// # End
//
// The episode is truncated after steps supersteps (400), each of as many steps as there are tasks.
//
// # Options
//
// See [Options].
//
// # Baselines
//
// uncorrected; the planners of k8s/GangWindow-v0, which plan in place of the environment's; and as bounds
// true_sizes, with the true sizes as forecasts, and the oracles of k8s/GangWindow-v0.
//
// # Versions
//
// v0: first version.
//
// # Source
//
// The job: see package gang. Imitation of a teacher that knows what the agent does not, here true_sizes:
// Chen et al., "Learning by Cheating", CoRL 2019, arXiv:1912.12294.
package forecast
