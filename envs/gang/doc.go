// Package gang implements k8s/GangWindow-v0: the agent decides when to re-plan the CPU shares of a bulk-synchronous
// job, and for which window.
//
// A job runs supersteps. In each, every task has a workload of some size, and the superstep lasts as long as the
// slowest task, whose duration depends on its size and on its share of a fixed number of cores. Sizes vary over time
// and are forecast. Re-planning the shares for the forecast of the next w supersteps costs time itself. The agent
// decides at each superstep whether to keep the shares, or to re-plan, and for which window w; the resource
// configuration algorithm then finds the shares.
//
// # Action
//
// Discrete(windows+1). 0 keeps the configuration; w plans for a window of w supersteps, with
// 1 ≤ w ≤ windows (3 by default). All actions are permitted at all times.
//
// # Observation
//
// Box(0, 1). With A = windows+1 actions, H = horizon supersteps and K tasks:
//
//	index               meaning                                                     min  max
//	a·H + h             duration predicted for superstep h from now if action a is  0    1
//	                    taken and its configuration stays; duration_low (50 s) is
//	                    0, duration_high (250 s) is 1, and values outside are
//	                    clipped
//	A·H + k             size predicted for task k now: 10 is 0, 50 is 1             0    1
//	A·H + K + k         share of the cores that task k has                          0    1
//	A·H + 2K            supersteps since the last one that began with a plan, over  0    1
//	                    20; 1 before the first
//
// With the defaults (A = 4, H = 6, K = 8) there are 41 values. In the compatible dynamics the
// observation is the matrix of durations alone, of shape (A, H), unclipped.
//
// # Reward
//
// −(duration + penalty) / 100 s: the true duration of the superstep, and the cost of the plan before it. A return is
// the job's completion time, over −100. The penalty depends on penalty_model. constant: penalty (15 s) for any plan,
// which checkpoints and re-creates all tasks. per_task: that times the part of the tasks whose shares change. resize:
// resize_seconds (1 s) for each task resized in place. The first step's plan is free: nothing ran before it.
//
// # Start
//
// Every task has 1000 millicores. Each task gets a generated series, or one of the files' in a random order, from a
// random offset in the training or the held-out part. Scaler and forecaster are fitted on training data only.
//
// # End
//
// The episode is truncated after steps supersteps (400). It never terminates.
//
// # Options
//
// See [Options]; dynamics:compatible with data:DIR reproduces the one episode of the earlier project exactly, with its
// quirks.
//
// # Baselines
//
// never_reconfigure_1000m, equal_3000m, exppo_static, static_1 … static_9, dynamic_window, dynamic_mpc, rhc, afhc, chc,
// threshold. Two more know the true sizes: one_time, and oracle_per_step_exact_minmax, which pays for a new
// configuration at every step and is no bound. A planner may set a configuration that no action names.
//
// # Versions
//
// v0: first version.
//
// # Source
//
// E. Wang, "Resource Configuration Decisions for Bulk Synchronous Parallel Jobs", MS thesis,
// Vanderbilt University 2021 (Kube_Gang_Scheduling); its fork by K. C. R. Chitta; Y. Barve et
// al., "EXPPO", IEEE ISORC 2020. Series: the Numenta Anomaly Benchmark.
package gang
