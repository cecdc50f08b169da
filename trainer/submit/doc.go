// Package submit runs a training as a workload: a learner and its environment servers. In a cluster the workload is
// a JobSet, or a Job if the cluster has no JobSets; Kueue can queue either. On this machine the same containers run
// as processes.
//
// A file describes the workload ([Read]), Build makes its manifests, Cluster.Apply applies them, and Local.Run runs
// them on this machine:
//
//   - The servers start first. The learner starts when all of them are ready.
//   - When the learner ends with status 0, the workload is complete and the servers end.
//   - Logs and checkpoints are on a volume. The pod that replaces an evicted learner resumes from there.
//   - Evictions do not count as failures; after backoffLimit failures of the learner the workload fails.
//
// Source: JobSet's API v1alpha2, https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/.
package submit
