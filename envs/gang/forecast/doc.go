// Package forecast implements k8s/GangForecast-v0: the agent corrects the forecasts by which a planner sets the CPU
// shares of a bulk-synchronous job.
//
// Job, episodes and costs are those of k8s/GangWindow-v0 (package gang). At each superstep dynamic_mpc decides whether
// to re-plan the shares, and for which window. Before that, the agent takes one step for each task, which corrects the
// forecast of that task's sizes.
//
// # Action
//
// Box(-1, 1) with one value for each of the H = horizon supersteps (6) that the planner looks ahead. 1 adds
// correction (10 sizes) to the forecast; the sum stays within the range of sizes.
//
// # Observation
//
// Box(-1, 1), for the task whose forecast the action corrects. The last size is a part of the range of sizes; the other
// sizes are differences to it, in the same unit, and 0 if unknown. With the defaults there are 89 values:
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
//	                 supersteps since the last one that began with a plan, over     0    1
//	                 20; 1 before the first
//
// # Reward
//
// That of k8s/GangWindow-v0 after the correction of the last task, and 0 before it.
//
// # Start
//
// As in k8s/GangWindow-v0. The history before the episode consists of earlier rows of the same series.
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
// uncorrected; the planners of k8s/GangWindow-v0, which replace the environment's planner, the clairvoyant ones among
// them; and true_sizes, which is clairvoyant, too: its forecasts are the true sizes.
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
