package submit

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JobSetAPI is the API version of the written JobSets.
const JobSetAPI = "jobset.x-k8s.io/v1alpha2"

// QueueLabel is the label with the LocalQueue of a workload, for Kueue.
const QueueLabel = "kueue.x-k8s.io/queue-name"

// JobSet has those fields of a JobSet that the manifests use. Tests decode the manifests with JobSet's own
// module (trainer/submit/upstream).
type JobSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              JobSetSpec `json:"spec"`
}

// JobSetSpec is the specification of a JobSet.
type JobSetSpec struct {
	ReplicatedJobs          []ReplicatedJob `json:"replicatedJobs"`
	Network                 *Network        `json:"network,omitempty"`
	SuccessPolicy           *SuccessPolicy  `json:"successPolicy,omitempty"`
	Suspend                 *bool           `json:"suspend,omitempty"`
	TTLSecondsAfterFinished *int32          `json:"ttlSecondsAfterFinished,omitempty"`
}

// ReplicatedJob is a role of a JobSet.
type ReplicatedJob struct {
	Name      string                  `json:"name"`
	Replicas  int32                   `json:"replicas"`
	Template  batchv1.JobTemplateSpec `json:"template"`
	DependsOn []DependsOn             `json:"dependsOn,omitempty"`
}

// DependsOn names a role that must be Ready or Complete before this one starts.
type DependsOn struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

// Network gives pods host names: SET-ROLE-JOB-POD.SUBDOMAIN.
type Network struct {
	EnableDNSHostnames       *bool  `json:"enableDNSHostnames,omitempty"`
	Subdomain                string `json:"subdomain,omitempty"`
	PublishNotReadyAddresses *bool  `json:"publishNotReadyAddresses,omitempty"`
}

// SuccessPolicy names the role whose success completes a JobSet.
type SuccessPolicy struct {
	Operator             string   `json:"operator"`
	TargetReplicatedJobs []string `json:"targetReplicatedJobs,omitempty"`
}
