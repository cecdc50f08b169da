// Package kubeyaml reads Nodes, Pods, workloads and a KubeSchedulerConfiguration from Kubernetes
// YAML into what package gpu simulates.
//
// Workloads become the pods that they would make, as in Alibaba's open-simulator (Simon):
// Deployments (with the name and as pods of their ReplicaSet), ReplicaSets,
// ReplicationControllers, StatefulSets, Jobs (all completions at once), CronJobs (one run) and
// DaemonSets (a pod for each node that its pods tolerate and select). What is suspended or done makes
// none, and pods that stand in the files with their owner count towards its number. Labels and
// annotations are the template's over the workload's.
//
// A configuration is of the version v1, or of v1beta1 with Simon's plugins: Simon, RandomScore,
// DotProductScore, GpuClusteringScore, GpuPackingScore, BestFitScore and FGDScore at score, and
// Open-Gpu-Share, which chooses devices by its argument gpuSelMethod (best, worst, random or a score
// plugin). Pods that name no scheduler go to simon-scheduler where there is no other default. Scores of
// kube-scheduler are computed as today's are, whatever the version says.
//
// A Config of Simon ([ReadSimon]) names the cluster and its applications, in which order pods come, to what
// part of the GPUs they are tuned, what is descheduled, and where snapshots go. Charts, a live cluster,
// workloadInflationConfig and newWorkloadConfig are refused with an error.
//
// GPUs are those of the resource nvidia.com/gpu, whole ones, with the node's label
// nvidia.com/gpu.product as their model; or those of the annotations and resources
// alibabacloud.com/gpu-count, gpu-milli and gpu-card-model, as the openb trace is published for
// clusters, which can be shared; or those of kubernasium.io/gpus, milli-gpu, gpu-model and devices,
// as package kwok writes them. Memory is counted in MiB, requests rounded up and what a node
// has rounded down.
//
// A pod's node selector, required and preferred node affinity, tolerations, priority, topology
// spread constraints ScheduleAnyway and images count. Inter-pod affinity and constraints
// DoNotSchedule are refused with an error. Ports and volumes are not looked at.
package kubeyaml
