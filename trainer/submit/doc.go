// Package submit runs a training as a workload: a learner and its environment servers. In a cluster that is a JobSet, or
// a Job where the cluster has no JobSets; Kueue queues either. On this machine the same containers run as processes.
//
// A file describes the workload ([Read]), Build makes its manifests, Cluster.Apply applies them, and Run carries them out
// here:
//
//   - The servers start first. The learner starts when all of them are ready.
//   - The learner's end with status 0 completes the workload and ends the servers.
//   - Logs and checkpoints are on a volume. The learner's pod in the place of an evicted one resumes from there.
//   - Evictions do not count as failures; after backoffLimit failures of the learner the workload fails.
//
// Source: JobSet's API v1alpha2, https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/.
package submit
