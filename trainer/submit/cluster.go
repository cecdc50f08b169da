package submit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Errors of a cluster that lacks what a workload needs.
var (
	ErrNoCluster   = errors.New("submit: no cluster")        // returned by Connect
	ErrNoJobSets   = errors.New("submit: no JobSets")        // returned by Cluster.Complete
	ErrQueue       = errors.New("submit: queue")             // returned by Cluster.Complete
	ErrNoNamespace = errors.New("submit: no such namespace") // returned by Cluster.Apply
	ErrNoClaim     = errors.New("submit: no such claim")     // returned by Cluster.Apply
	ErrOther       = errors.New("submit: another workload")  // returned by Cluster.Apply
)

const (
	kueueGroup   = "kueue.x-k8s.io"
	defaultQueue = "default" // Kueue's name for the default queue
)

var (
	jobSets = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
	jobs    = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	core    = schema.GroupVersion{Version: "v1"}
	claims  = core.WithResource("persistentvolumeclaims")
	secrets = core.WithResource("secrets")
	configs = core.WithResource("configmaps")
)

// A Cluster is where workloads are applied.
type Cluster struct {
	client    dynamic.Interface
	discovery discovery.DiscoveryInterface
	namespace string // namespace of the context
}

// Connect connects to the cluster of a context of kubectl's kubeconfig; "" is its current context. In a pod
// without a kubeconfig it connects to the pod's cluster.
func Connect(kubeContext string) (*Cluster, error) {
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{CurrentContext: kubeContext})
	rc, err := config.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("%w: neither KUBECONFIG nor ~/.kube/config names one; kind: local runs the workload on this machine, and --dry-run prints it", ErrNoCluster)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCluster, err)
	}
	namespace, _, err := config.Namespace()
	if err != nil {
		return nil, err
	}
	return NewCluster(rc, namespace)
}

// NewCluster returns the cluster of an API server; namespace is the default for workloads that name none.
func NewCluster(rc *rest.Config, namespace string) (*Cluster, error) {
	client, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, err
	}
	d, err := discovery.NewDiscoveryClientForConfig(rc)
	return &Cluster{client, d, namespace}, err
}

// Complete sets the fields that a workload leaves to the cluster: its kind, namespace and queue. It returns
// notes for the user.
func (c *Cluster) Complete(ctx context.Context, w *Workload) (notes []string, err error) {
	w.Namespace = cmp.Or(w.Namespace, c.namespace)
	if w.Kind != KindJob {
		_, err := c.discovery.ServerResourcesForGroupVersion(jobSets.GroupVersion().String())
		switch {
		case err == nil:
			w.Kind = KindJobSet
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("resources of %s: %w", jobSets.GroupVersion(), err)
		case w.Kind == KindJobSet:
			return nil, fmt.Errorf("%w: the cluster does not serve %s: install JobSet, or set kind: job", ErrNoJobSets, JobSetAPI)
		default:
			w.Kind = KindJob
			notes = append(notes, "the cluster has no JobSets: a Job runs learner and servers in one pod")
		}
	}
	note, err := c.chooseQueue(ctx, w)
	if note != "" {
		notes = append(notes, note)
	}
	return notes, err
}

// chooseQueue sets or checks the queue.
func (c *Cluster) chooseQueue(ctx context.Context, w *Workload) (note string, err error) {
	groups, err := c.discovery.ServerGroups()
	if err != nil {
		return "", fmt.Errorf("groups of the API server: %w", err)
	}
	i := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == kueueGroup })
	if i < 0 && w.Queue != "" {
		return "", fmt.Errorf("%w: %s, but the cluster has no Kueue: it does not serve %s", ErrQueue, w.Queue, kueueGroup)
	} else if i < 0 {
		return "", nil
	}
	queues := schema.GroupVersionResource{Group: kueueGroup, Version: groups.Groups[i].PreferredVersion.Version, Resource: "localqueues"}
	list, err := c.client.Resource(queues).Namespace(w.Namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) && w.Queue != "" {
		return "", nil // Kueue reports the error
	} else if err != nil {
		return "", fmt.Errorf("queues of namespace %s: %w", w.Namespace, err)
	}
	var names []string
	for _, q := range list.Items {
		names = append(names, q.GetName())
	}
	slices.Sort(names)
	switch {
	case w.Queue != "" && slices.Contains(names, w.Queue):
		return "", nil
	case w.Queue != "":
		return "", fmt.Errorf("%w: %s is no LocalQueue of namespace %s, which has %s", ErrQueue, w.Queue, w.Namespace, orNone(names))
	case len(names) == 0:
		return fmt.Sprintf("namespace %s has no LocalQueue: Kueue does not queue the workload", w.Namespace), nil
	case len(names) == 1:
		w.Queue = names[0]
	case slices.Contains(names, defaultQueue):
		w.Queue = defaultQueue
	default:
		return "", fmt.Errorf("%w: namespace %s has %s: name one of them as queue", ErrQueue, w.Namespace, orNone(names))
	}
	return "queue " + w.Queue, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// state returns the state of a workload: Complete, Failed, Suspended or Running.
func state(u *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		c, ok := c.(map[string]any)
		if !ok || c["status"] != "True" {
			continue
		}
		switch c["type"] {
		case "Complete", "Completed": // of Jobs, of JobSets
			return "Complete"
		case "Failed":
			return "Failed"
		}
	}
	if suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend"); suspended {
		return "Suspended"
	}
	return "Running"
}
