// Package kubeyaml reads Nodes, Pods, workloads and a KubeSchedulerConfiguration from Kubernetes YAML for the
// simulation of package gpushare.
//
// Workloads become the pods that they would create, as in Alibaba's open-simulator (Simon): Deployments (as
// pods of their ReplicaSet), ReplicaSets, ReplicationControllers, StatefulSets, Jobs (all completions at once),
// CronJobs (one run) and DaemonSets (a pod for each node that its pods tolerate and select). Suspended and
// finished workloads create no pods. Pods in the files count towards the number of their owner. Pods have their
// workload's labels and annotations, overridden by the template's.
//
// A configuration has version v1, or v1beta1 with Simon's plugins: Simon, RandomScore, DotProductScore,
// GpuClusteringScore, GpuPackingScore, BestFitScore and FGDScore at score, and Open-Gpu-Share, which chooses
// devices by its argument gpuSelMethod (best, worst, random or a score plugin). Pods that name no scheduler go
// to simon-scheduler if there is no other default. kube-scheduler's scores are those of its current release,
// whatever the version.
//
// A Config of Simon ([ReadSimon]) names the cluster and its applications, the order of pods, the share of the
// GPUs to which the pods are tuned, the descheduling, and the files of snapshots. Charts, a live cluster,
// workloadInflationConfig and newWorkloadConfig are errors.
//
// GPUs come from three sources. The resource nvidia.com/gpu gives whole devices, whose model is the node's
// label nvidia.com/gpu.product. The annotations and resources alibabacloud.com/gpu-count, gpu-milli and
// gpu-card-model give shared devices, as in the published openb trace. So do kubernasium.io/gpus, milli-gpu,
// gpu-model and devices, which package kwok writes. Memory is in MiB; requests are rounded up and capacities
// down.
//
// The package reads a pod's node selector, required and preferred node affinity, tolerations, priority,
// topology spread constraints with ScheduleAnyway, and images. Inter-pod affinity and DoNotSchedule constraints
// are errors. Ports and volumes are ignored.
package kubeyaml
