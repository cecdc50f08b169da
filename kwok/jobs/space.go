// Package jobs runs batch/v1 Jobs in a namespace of an API server and watches them until their pods run, they
// are complete, or they are gone.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

// LabelSpace labels the namespaces and nodes that this package creates, and is the key of these nodes' taints.
// Its value on nodes is the namespace.
const LabelSpace = "kubernasium.io/jobs"

// Hold is the value of the annotation [stages.Duration] for a pod that runs until the annotation changes: a
// century.
const Hold = "876000h"

const (
	callTimeout     = time.Minute     // of a call and its retries; a call takes milliseconds on an idle machine
	defaultPatience = 5 * time.Minute // nodes may have to pull images; simulated pods take milliseconds
	closeTimeout    = 2 * time.Minute
	firstPause      = 100 * time.Millisecond // before the first retry; doubled each time
	goneEvery       = 100 * time.Millisecond // interval of checks whether a namespace is gone
)

// ErrTimeout is wrapped by errors of waits that exceed a Space's Patience.
var ErrTimeout = errors.New("jobs: it takes too long")

// ErrFailed is wrapped by errors of waits for a Job that has failed.
var ErrFailed = errors.New("jobs: a job failed")

// A Space is a namespace with Jobs, which it watches. Several goroutines may call its methods.
type Space struct {
	// Patience limits a wait; default 5 minutes.
	Patience time.Duration

	client    kubernetes.Interface
	namespace string
	made      bool // this package created the namespace
	nodes     bool // nodes were added
	factory   informers.SharedInformerFactory
	jobs      batchlisters.JobNamespaceLister
	pods      corelisters.PodNamespaceLister
	stop      context.CancelFunc

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	failing error         // error of a watch; nil while all work
}

// Open watches the Jobs and pods of a namespace, which it creates if it does not exist. For namespace "" it
// creates one with a new name that begins with prefix.
func Open(ctx context.Context, o kwok.Options, prefix, namespace string) (*Space, error) {
	client, err := kwok.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Space{Patience: defaultPatience, client: client, changed: make(chan struct{}), stop: func() {}}
	if err := s.ensureNamespace(ctx, prefix, namespace); err != nil {
		return nil, err
	}
	if err := s.watch(ctx); err != nil {
		if namespace == "" { // no other object has this name
			err = errors.Join(err, s.Close())
		}
		return nil, err
	}
	return s, nil
}

// watch watches the Jobs and pods, and returns when they are listed.
func (s *Space) watch(ctx context.Context) error {
	s.factory = informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(s.namespace))
	jobs, pods := s.factory.Batch().V1().Jobs(), s.factory.Core().V1().Pods()
	s.jobs, s.pods = jobs.Lister().Jobs(s.namespace), pods.Lister().Pods(s.namespace)
	for _, i := range []cache.SharedIndexInformer{jobs.Informer(), pods.Informer()} {
		if err := s.follow(i); err != nil {
			return err
		}
	}
	var watching context.Context
	watching, s.stop = context.WithCancel(context.Background())
	s.factory.Start(watching.Done())
	listed, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for kind, ok := range s.factory.WaitForCacheSync(listed.Done()) {
		if !ok {
			s.unwatch()
			return fmt.Errorf("jobs: %v of namespace %s were not listed within %v: %w", kind, s.namespace, callTimeout, errors.Join(s.watchError(), ctx.Err()))
		}
	}
	return nil
}

// ensureNamespace creates the namespace unless it exists, and waits for the end of a terminating one. As in
// call, requests outlive ctx: an abandoned one could leave a namespace behind.
func (s *Space) ensureNamespace(ctx context.Context, prefix, namespace string) error {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	meta := metav1.ObjectMeta{Name: namespace, Labels: map[string]string{LabelSpace: ""}}
	if namespace == "" {
		meta.GenerateName = prefix
	}
	for {
		ns, err := s.namespaceOf(asking, meta)
		switch {
		case namespace != "" && apierrors.IsAlreadyExists(err): // created in between
		case err != nil:
			return fmt.Errorf("create namespace %s: %w", namespace, err)
		case ns.DeletionTimestamp == nil:
			_, s.made = ns.Labels[LabelSpace]
			s.namespace = ns.Name
			return nil
		}
		select {
		case <-time.After(goneEvery):
		case <-ctx.Done():
			return fmt.Errorf("namespace %s is being deleted: %w", namespace, context.Cause(ctx))
		case <-asking.Done():
			return fmt.Errorf("namespace %s is still being deleted after %v: %w", namespace, closeTimeout, ErrTimeout)
		}
	}
}

// namespaceOf returns the namespace, or creates it. A user of an existing namespace needs no right to create
// one.
func (s *Space) namespaceOf(ctx context.Context, meta metav1.ObjectMeta) (*corev1.Namespace, error) {
	if meta.Name != "" {
		ns, err := s.client.CoreV1().Namespaces().Get(ctx, meta.Name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return ns, err
		}
	}
	return s.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{})
}

// follow wakes waits at every change that an informer reports, and at its failures.
func (s *Space) follow(i cache.SharedIndexInformer) error {
	note := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failing = nil
		close(s.changed)
		s.changed = make(chan struct{})
	}
	err := i.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return // the informer lists again
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failing = err
	})
	if err != nil {
		return err
	}
	_, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { note() }, UpdateFunc: func(_, _ any) { note() }, DeleteFunc: func(any) { note() },
	})
	return err
}

func (s *Space) watchError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failing
}

func (s *Space) unwatch() {
	s.stop()
	s.factory.Shutdown()
}

// Namespace returns the name of the namespace.
func (s *Space) Namespace() string { return s.namespace }

// Client returns the client of the API server.
func (s *Space) Client() kubernetes.Interface { return s.client }

// AddNode adds a node that KWOK manages, for pods of this space only: those that [Space.Place] has prepared. It
// keeps a node of that name that the space added before.
func (s *Space) AddNode(ctx context.Context, name string, allocatable cluster.Resources, pods int64) error {
	s.mu.Lock()
	s.nodes = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	amounts := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(allocatable.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(allocatable.MemoryBytes, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(pods, resource.DecimalSI),
	}
	_, err := s.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{stages.Node: "fake"},
			Labels: map[string]string{LabelSpace: s.namespace, corev1.LabelHostname: name},
		},
		Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: LabelSpace, Value: s.namespace, Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Allocatable: amounts, Capacity: amounts},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var n *corev1.Node
		if n, err = s.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err == nil && n.Labels[LabelSpace] != s.namespace {
			err = fmt.Errorf("there is another node of that name")
		}
	}
	if err != nil {
		return fmt.Errorf("create node %s: %w", name, err)
	}
	return nil
}

// Place restricts pods to one node, of this space or not, in addition to their other constraints.
func (s *Space) Place(spec *corev1.PodSpec, node string) {
	spec.Affinity = cmp.Or(spec.Affinity, &corev1.Affinity{})
	spec.Affinity.NodeAffinity = cmp.Or(spec.Affinity.NodeAffinity, &corev1.NodeAffinity{})
	wanted := &spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*wanted = cmp.Or(*wanted, &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}})
	for i := range (*wanted).NodeSelectorTerms { // one of the terms must match
		term := &(*wanted).NodeSelectorTerms[i]
		term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		})
	}
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
		Key: LabelSpace, Operator: corev1.TolerationOpEqual, Value: s.namespace, Effect: corev1.TaintEffectNoSchedule,
	})
}

// Job returns the latest version of a Job, or nil. The caller must not change it.
func (s *Space) Job(name string) *batchv1.Job {
	j, err := s.jobs.Get(name)
	if err != nil {
		return nil // the lister's only error is NotFound
	}
	return j
}

// Names returns the names of the Jobs that have a label.
func (s *Space) Names(label string) []string {
	selector, err := labels.Parse(label)
	if err != nil {
		panic(err) // the caller's label is invalid
	}
	all, _ := s.jobs.List(selector) // a list from memory does not fail
	var names []string
	for _, j := range all {
		names = append(names, j.Name)
	}
	return names
}

// Pods returns the latest versions of a Job's pods. The caller must not change them.
func (s *Space) Pods(job string) []*corev1.Pod {
	pods, _ := s.pods.List(labels.SelectorFromSet(labels.Set{batchv1.JobNameLabel: job})) // as in Names
	return pods
}

// Close stops the watches, and deletes the space's nodes and, if this package created it, the namespace with
// its contents.
func (s *Space) Close() error {
	s.unwatch()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	ignore := func(what string, err error) {
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if s.made {
		ignore("delete namespace "+s.namespace, s.client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}))
	}
	if s.nodes { // a user of existing nodes needs no right to delete nodes
		ignore("delete nodes", s.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: LabelSpace + "=" + s.namespace}))
	}
	return errors.Join(errs...)
}
