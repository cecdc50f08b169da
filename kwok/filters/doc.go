// Package filters decides on which nodes a pod may run for the sake of other pods, of host ports and
// of volumes: what of a scheduler's filters depends on more than one node and on more than amounts.
//
// A [Pod] is read once. A [Check] is made for one pod and all nodes of a cluster, is told of the pods
// on them by [Check.Add], and then answers for each node by [Check.Refusal]. Pods can be taken out
// again, to see what the node would say without them.
//
// The rules are those of kube-scheduler 1.36 with its default configuration:
//
//   - InterPodAffinity: required terms of the pod, and required anti-affinity of the pods that are
//     there against it.
//   - PodTopologySpread: constraints DoNotSchedule, with minDomains, matchLabelKeys, nodeAffinityPolicy
//     and nodeTaintsPolicy.
//   - NodePorts: host ports by address and protocol.
//   - VolumeBinding and VolumeZone, of claims that are bound: the volume's node affinity and zones. This
//     package binds no claim, so that a pod with one that is not bound is refused.
//   - NodeResourcesFit, of resources beside CPU, memory and GPUs: ephemeral storage, huge pages, those of
//     device plugins.
//   - VolumeRestrictions: a claim ReadWriteOncePod is for one pod. Volumes of the kinds that may be
//     attached only once without a claim (GCE, AWS, iSCSI, RBD) are refused.
//
// How many volumes a node can attach (NodeVolumeLimits), devices of resource claims, and volumes of
// in-tree kinds that are served by a CSI driver but have no zone as a label, are not looked at.
//
// The module kwok/filters/oracle compares the verdicts with those of kube-scheduler's own plugins.
package filters
