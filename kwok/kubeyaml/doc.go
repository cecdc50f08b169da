// Package kubeyaml reads Nodes, Pods, workloads and a KubeSchedulerConfiguration from Kubernetes
// YAML for the simulation of package gpu.
//
// Workloads become the pods that they would create, as in Alibaba's open-simulator (Simon):
// Deployments (as pods of their ReplicaSet), ReplicaSets,
// ReplicationControllers, StatefulSets, Jobs (all completions at once), CronJobs (one run) and
// DaemonSets (a pod for each node that its pods tolerate and select). Suspended and finished
// workloads create none, and pods that are in the files beside their owner count towards its number.
// Labels and annotations are the workload's, overridden by the template's.
//
// A configuration is of the version v1, or of v1beta1 with Simon's plugins: Simon, RandomScore,
// DotProductScore, GpuClusteringScore, GpuPackingScore, BestFitScore and FGDScore at score, and
// Open-Gpu-Share, which chooses devices by its argument gpuSelMethod (best, worst, random or a score
// plugin). Pods that name no scheduler go to simon-scheduler if there is no other default. Scores of
// kube-scheduler are those of its current release, whatever the version.
//
// A Config of Simon ([ReadSimon]) names the cluster and its applications, the order of pods, the part
// of the GPUs that they are tuned to, the descheduling, and the files of snapshots. Charts, a live
// cluster, workloadInflationConfig and newWorkloadConfig are errors.
//
// GPUs come from the resource nvidia.com/gpu, as whole devices whose model is the node's label
// nvidia.com/gpu.product; or, as shared devices, from the annotations and resources
// alibabacloud.com/gpu-count, gpu-milli and gpu-card-model, which the published openb trace uses; or
// from kubernasium.io/gpus, milli-gpu, gpu-model and devices, which package kwok writes. Memory is in
// MiB; requests are rounded up and capacities down.
//
// A pod's node selector, required and preferred node affinity, tolerations, priority, topology
// spread constraints ScheduleAnyway and images count. Inter-pod affinity and constraints
// DoNotSchedule are errors. Ports and volumes are ignored.
package kubeyaml
