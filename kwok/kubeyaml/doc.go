// Package kubeyaml reads Nodes, Pods and a KubeSchedulerConfiguration from Kubernetes YAML into
// what package gpu simulates.
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
