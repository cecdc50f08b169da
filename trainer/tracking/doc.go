// Package tracking records a training: TensorBoard event files, CSV logs, a progress bar, plots, and the
// statistics and tables of a comparison. Names of files, columns and tags are those of Stable-Baselines3, so
// that its tools read them unchanged.
//
// # Files of a log folder
//
//	events.out.tfevents.<unix>.<host>.<pid>.<n>  TensorBoard's tags    EventWriter
//	progress.csv      one row for each dump of the logger              ProgressCSV
//	monitor.csv       one row for each finished training episode       MonitorCSV
//	evaluations.csv   one row for each evaluation                      EvaluationsCSV
//	*.png             curves, comparisons, episodes over time          LearningCurve, Curves, Bars, Timeline
//
// progress.csv has the column time/total_timesteps and then a column for each tag, in the order
// of first appearance; a cell is empty where a row has no value for it.
//
// monitor.csv begins with the line #{"t_start": <unix seconds>, "env_id": "<id>"}. Its columns
// are r (return), l (length in steps), t (seconds since t_start) and timesteps (steps of the
// whole run when the episode ended; Stable-Baselines3 reads it as one of its info keywords).
//
// evaluations.csv has the columns timesteps, mean, std (sample standard deviation), episodes,
// return_0, return_1 and so on.
//
// # Tags
//
// The package writes any tags. The trainer writes:
//
//	rollout/ep_rew_mean, rollout/ep_len_mean, rollout/imbalance
//	rollout/actions or rollout/placements_by_node (histograms)
//	time/fps, time/iterations, time/time_elapsed, time/total_timesteps
//	train/loss, train/policy_gradient_loss, train/value_loss, train/entropy_loss,
//	train/approx_kl, train/clip_fraction, train/explained_variance,
//	train/learning_rate, train/n_updates
//	eval/mean_reward, eval/mean_ep_length
//
// # Resuming
//
// A run may resume from a checkpoint at some timestep. The Open functions of the CSV files drop the rows after
// that timestep, so that a resumed run leaves the rows of an uninterrupted one. In progress.csv counts of
// iterations begin again, and so do intervals between rows that are counted in iterations. The functions rewrite
// a file beside the old one and rename it, so that a crash leaves one or the other; they drop a last line that a crash has
// truncated. Event files are never rewritten: ResumeEventWriter begins a new one with a mark that makes
// TensorBoard discard later points.
//
// # Checking with TensorBoard's own reader
//
// testdata/check_tensorboard.py prints the tags and points of a log folder as JSON, read by
// TensorBoard's EventAccumulator; it needs the pip package tensorboard (2.21.0, tested). The
// test TestTensorBoardReadsOurEvents runs it where TENSORBOARD_PYTHON names a Python that has it.
package tracking
