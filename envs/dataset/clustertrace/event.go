package clustertrace

import (
	"encoding/json"
	"time"
)

// Format and Version stand in the header of each recording. Version increases with any change that a reader of the
// previous version would misread.
const (
	Format  = "kubernasium.cluster-trace"
	Version = 1
)

// Header is the first line of a recording.
type Header struct {
	Format     string    `json:"format"`
	Version    int       `json:"version"`
	Start      time.Time `json:"start"`                // of the recording; events are at times after it
	Source     string    `json:"source,omitempty"`     // the program that made it
	Anonymized bool      `json:"anonymized,omitempty"` // names and labels are hashes
}

// Kind says what an [Event] is.
type Kind string

// The kinds of events. The fields of [Event] that a kind sets stand beside it.
const (
	AddTemplate  Kind = "template"       // Spec; the template's number is the count of those before it
	AddClass     Kind = "priority_class" // Class; one of the same name replaces it
	AddClaim     Kind = "claim"          // Claim; one of the same namespace and name replaces it
	AddBudget    Kind = "budget"         // Budget; one of the same namespace and name replaces it
	AddNode      Kind = "node"           // Node, Info; numbered likewise
	UpdateNode   Kind = "update_node"    // Node, Info: its new state
	RemoveNode   Kind = "remove_node"    // Node
	AddPod       Kind = "pod"            // Pod, Name, UID, Template, Claims; numbered likewise; it is pending
	UpdatePod    Kind = "update_pod"     // Pod, Template: resized, or otherwise changed
	BindPod      Kind = "bind"           // Pod, Node, Devices
	RunPod       Kind = "run"            // Pod: its containers have started
	FinishPod    Kind = "finish"         // Pod, Phase, Preempted: its containers have ended, what it requested is free
	DeletePod    Kind = "delete"         // Pod, Preempted: it is gone from the API server
	Gap          Kind = "gap"            // nothing was recorded since the previous event
	EndOfSegment Kind = "end"            // the recorder was stopped; a Gap may follow
)

// Phase is how a pod finished.
type Phase string

// The phases of finished pods, as in Kubernetes.
const (
	Succeeded Phase = "Succeeded"
	Failed    Phase = "Failed"
)

// Event is one line of a recording. Pods, nodes and templates are numbered from 0.
type Event struct {
	Kind Kind
	At   time.Duration // since Header.Start, in whole milliseconds; never less than the previous event's
	Ago  time.Duration // how long before At it happened; above 0 only for objects that the recorder found in a list

	Pod      int32
	Node     int32
	Template int32
	Name     string   // of a pod
	UID      string   // of a pod: distinguishes pods of one name; may be shortened or hashed
	Claims   []string // of a pod: names of persistent volume claims in its namespace
	Devices  []int    // of a bound pod: its GPUs, by index; nil if unknown
	Phase    Phase

	Preempted bool // of a pod that ends: a scheduler evicted it to make room

	Spec  *Template
	Info  *Node
	Class *PriorityClass
	Claim *Claim

	Budget *Budget
}

// Node holds the fields of a node that matter to pods.
type Node struct {
	Name          string            `json:"name"`
	MilliCPU      int64             `json:"milli_cpu"`               // allocatable, as all amounts here
	MemoryBytes   int64             `json:"memory_bytes"`            //
	Pods          int32             `json:"pods"`                    // maximum number of pods
	GPUs          int32             `json:"gpus,omitempty"`          // devices, 0 to 64
	MilliGPU      int32             `json:"milli_gpu,omitempty"`     // thousandths of each device
	GPUModel      string            `json:"gpu_model,omitempty"`     //
	Other         map[string]int64  `json:"other,omitempty"`         // further resources, in whole units
	Labels        map[string]string `json:"labels,omitempty"`        //
	Taints        []Taint           `json:"taints,omitempty"`        // NoSchedule, PreferNoSchedule and NoExecute
	Unschedulable bool              `json:"unschedulable,omitempty"` // cordoned
	NotReady      bool              `json:"not_ready,omitempty"`     // its condition Ready is not True
}

// Taint repels pods that do not tolerate it.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// Template holds a pod's requests and whatever else its scheduler uses. Amounts are sums over all containers, as in
// kube-scheduler.
type Template struct {
	Namespace        string            `json:"namespace,omitempty"`
	Owner            string            `json:"owner,omitempty"` // its controller, as Kind/name; pods of one owner are replicas
	Labels           map[string]string `json:"labels,omitempty"`
	Scheduler        string            `json:"scheduler,omitempty"` // empty is default-scheduler
	Priority         int32             `json:"priority,omitempty"`
	PriorityClass    string            `json:"priority_class,omitempty"`
	PreemptionPolicy string            `json:"preemption_policy,omitempty"` // Never, or empty

	MilliCPU         int64            `json:"milli_cpu,omitempty"` // requests
	MemoryBytes      int64            `json:"memory_bytes,omitempty"`
	ExtraMilliCPU    int64            `json:"extra_milli_cpu,omitempty"` // that scores add for containers without requests
	ExtraMemoryBytes int64            `json:"extra_memory_bytes,omitempty"`
	Other            map[string]int64 `json:"other,omitempty"` // further resources, in whole units
	GPUs             int32            `json:"gpus,omitempty"`
	MilliGPU         int32            `json:"milli_gpu,omitempty"`  // of each GPU; below 1000 with one GPU only
	GPUModels        []string         `json:"gpu_models,omitempty"` // that it may run on; empty is any

	NodeSelector map[string]string `json:"node_selector,omitempty"`
	Tolerations  []Toleration      `json:"tolerations,omitempty"`
	Required     []Term            `json:"required,omitempty"`  // required node affinity: one of them must match
	Preferred    []Preference      `json:"preferred,omitempty"` // preferred node affinity

	// In the JSON of the Kubernetes API, for programs that schedule with upstream's code.
	PodAffinity     json.RawMessage `json:"pod_affinity,omitempty"`
	PodAntiAffinity json.RawMessage `json:"pod_anti_affinity,omitempty"`
	Spread          json.RawMessage `json:"topology_spread,omitempty"`
	HostPorts       []string        `json:"host_ports,omitempty"` // as [HostPort.String] writes them
	Gates           []string        `json:"scheduling_gates,omitempty"`
}

// Toleration lets a pod onto nodes with the taints that it matches.
type Toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"` // Equal, Exists; empty is Equal
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"` // empty is every effect
}

// Term is a conjunction of requirements on a node.
type Term struct {
	Labels []Requirement `json:"labels,omitempty"`
	Fields []Requirement `json:"fields,omitempty"` // of metadata.name alone
}

// Requirement compares a label of a node.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"` // In, NotIn, Exists, DoesNotExist, Gt, Lt
	Values   []string `json:"values,omitempty"`
}

// Preference is a term that adds its weight to the score of the nodes that it matches.
type Preference struct {
	Weight int32 `json:"weight"`
	Term   Term  `json:"term"`
}

// PriorityClass is a class that templates name.
type PriorityClass struct {
	Name             string `json:"name"`
	Value            int32  `json:"value"`
	GlobalDefault    bool   `json:"global_default,omitempty"`
	PreemptionPolicy string `json:"preemption_policy,omitempty"`
}

// Claim is a persistent volume claim that pods name.
type Claim struct {
	Namespace    string `json:"namespace"`
	Name         string `json:"name"`
	StorageClass string `json:"storage_class,omitempty"`
	Bytes        int64  `json:"bytes,omitempty"`
	Volume       string `json:"volume,omitempty"` // that it is bound to; empty is none
	Nodes        []Term `json:"nodes,omitempty"`  // that reach the volume; empty is every node
}

// Budget is a pod disruption budget. Its amounts are those of the Kubernetes API: a number, or a percentage such as
// 50%. A budget without a selector, such as a deleted one, protects no pod.
type Budget struct {
	Namespace      string    `json:"namespace,omitempty"`
	Name           string    `json:"name"`
	Selector       *Selector `json:"selector,omitempty"`
	MinAvailable   string    `json:"min_available,omitempty"` // one of the two, or none
	MaxUnavailable string    `json:"max_unavailable,omitempty"`
}
