package submit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Kinds of workloads.
const (
	KindJobSet = "jobset" // learner and servers in separate pods
	KindJob    = "job"    // learner and servers in one pod
	KindLocal  = "local"  // the pods of a JobSet, as processes of this machine
)

// maxName leaves room for the suffixes of JobSet and Job controllers: "-learner-0-0-" and five characters.
const maxName = 40

// ErrWorkload is wrapped by errors about a workload's file.
var ErrWorkload = errors.New("submit: workload")

// Workload is the file that describes how a training runs. Its fields have Kubernetes' names and types where
// Kubernetes has such fields.
type Workload struct {
	// Kind is jobset, job or local. Default: jobset where the cluster has JobSets, else job.
	Kind string `json:"kind,omitempty"`
	// Name of the objects; default: algorithm and environment.
	Name string `json:"name,omitempty"`
	// Namespace of the objects; default: that of the kubeconfig's context.
	Namespace string `json:"namespace,omitempty"`
	// Context of the kubeconfig; default: its current one.
	Context string `json:"context,omitempty"`
	// Image of the trainer, which the servers also use. Default: kubernasium/trainer of this version.
	Image            string                        `json:"image,omitempty"`
	ImagePullPolicy  corev1.PullPolicy             `json:"imagePullPolicy,omitempty"`
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// Queue is a LocalQueue of Kueue. Default: the namespace's only one, or the one named default; else none.
	Queue string `json:"queue,omitempty"`
	// PriorityClassName of the pods.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// Servers is the number of environment servers; default 1. With 0, the learner plays in its own process.
	Servers *int32 `json:"servers,omitempty"`
	// Learner and Server define where their pods run, and with what resources.
	Learner Role `json:"learner,omitempty"`
	Server  Role `json:"server,omitempty"`
	// Volume stores logs and checkpoints.
	Volume Volume `json:"volume,omitempty"`
	// BackoffLimit is the number of the learner's failures, not counting evictions, after which it restarts;
	// default 3.
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
	// TerminationGracePeriodSeconds is the learner's time to save a checkpoint; default 120.
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
	// TTLSecondsAfterFinished is the time after its end when the workload is deleted; default: never.
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// Role defines where the pods of a role run, and with what resources. In a Job, the learner's role applies to
// the pod.
type Role struct {
	Resources    corev1.ResourceRequirements `json:"resources,omitempty"`
	NodeSelector map[string]string           `json:"nodeSelector,omitempty"`
	Tolerations  []corev1.Toleration         `json:"tolerations,omitempty"`
}

// Volume is an existing claim, or one to create. A created claim outlives the workload.
type Volume struct {
	Claim            string             `json:"claim,omitempty"`
	Size             *resource.Quantity `json:"size,omitempty"` // default 5Gi
	StorageClassName *string            `json:"storageClassName,omitempty"`
}

// Training is the command that a workload runs.
type Training struct {
	Algo, Env string
	Args      []string          // flags of trainer train, without servers and log folder
	Files     map[string][]byte // files that Args name below [FilesPath]
	Version   string            // version of the trainer, with the default image
}

// Read reads the file of a workload, sets defaults and checks it.
func Read(path string, t Training) (*Workload, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	w := &Workload{}
	if err := yaml.UnmarshalStrict(text, w); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrWorkload, path, err)
	}
	if err := oneDocument(text); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrWorkload, path, err)
	}
	w.setDefaults(t)
	if err := w.check(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrWorkload, path, err)
	}
	return w, nil
}

// oneDocument returns an error for YAML with more than one document. [yaml.UnmarshalStrict] reads the first and ignores
// the others. Empty ones are permitted, such as after a last line of dashes.
func oneDocument(text []byte) error {
	docs := yamlv3.NewDecoder(bytes.NewReader(text))
	for n := 1; ; n++ {
		var doc any
		switch err := docs.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("document %d: %w", n, err)
		case n > 1 && doc != nil:
			return fmt.Errorf("document %d: want one YAML document in the file", n)
		}
	}
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func (w *Workload) setDefaults(t Training) {
	if w.Name == "" {
		name := notInNames.ReplaceAllString(strings.ToLower(t.Algo+"-"+t.Env), "-")
		w.Name = strings.Trim(name[:min(len(name), maxName)], "-")
	}
	w.Image = cmp.Or(w.Image, "kubernasium/trainer:"+t.Version)
	w.Servers = cmp.Or(w.Servers, new(int32(1)))
	w.BackoffLimit = cmp.Or(w.BackoffLimit, new(int32(3)))
	w.TerminationGracePeriodSeconds = cmp.Or(w.TerminationGracePeriodSeconds, new(int64(120)))
	if w.Volume.Claim == "" {
		w.Volume.Size = cmp.Or(w.Volume.Size, new(resource.MustParse("5Gi")))
	}
}

func (w *Workload) check() error {
	switch w.Kind {
	case "", KindJobSet, KindJob, KindLocal:
	default:
		return fmt.Errorf("kind: %q, want %s, %s or %s", w.Kind, KindJobSet, KindJob, KindLocal)
	}
	if bad := validation.IsDNS1035Label(w.Name); len(bad) > 0 || len(w.Name) > maxName {
		return fmt.Errorf("name: %q, want at most %d lower-case letters, digits and -, with a letter first", w.Name, maxName)
	}
	if n := *w.Servers; n < 0 || n > 64 {
		return fmt.Errorf("servers: %d, want 0 to 64", n)
	}
	if *w.BackoffLimit < 0 {
		return fmt.Errorf("backoffLimit: %d, want at least 0", *w.BackoffLimit)
	}
	if w.Volume.Claim != "" && (w.Volume.Size != nil || w.Volume.StorageClassName != nil) {
		return fmt.Errorf("volume: claim %s exists: size and storageClassName are of one to make", w.Volume.Claim)
	}
	if w.Kind == KindLocal && w.Queue != "" {
		return fmt.Errorf("queue: %s, but kind: local has no Kueue", w.Queue)
	}
	return nil
}
