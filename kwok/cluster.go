package kwok

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

const (
	callTimeout   = 30 * time.Second // of a call; one takes 1 to 5 ms on an idle machine
	deleteTimeout = 2 * time.Minute  // of a DeleteCollection; 5,000 pods take 7 s on an idle machine
	patience      = 30 * time.Second // until one more object matches its prediction; KWOK takes 3 ms for a pod on an idle machine
)

// Cluster is a [cluster.Cluster] on an API server. [Open] makes one. It connects and creates its namespace at
// the first Reset, Apply or Advance.
type Cluster struct {
	server    *server
	state     *cluster.State // prediction of the API's objects
	client    kubernetes.Interface
	namespace string // "": not connected
	view      *view
	watchers  []*watcher
	stop      context.CancelFunc // stops the watchers
	watching  sync.WaitGroup
	patience  time.Duration
	broken    error // why the cluster must be Reset, or nil

	podNames []string // in the API, by index
	named    int      // names assigned so far

	tasks         []task
	last          map[key]int   // the last task of each object
	touched       map[key]int32 // indices of objects with a changed prediction
	unresizableMu sync.Mutex
	unresizable   []int32 // pods that the API server could not resize in place
}

var _ cluster.Cluster = (*Cluster)(nil)

// Open returns an empty cluster on the control plane that o names.
func Open(o Options) (*Cluster, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	return newCluster(s), nil
}

func newCluster(s *server) *Cluster {
	return &Cluster{
		server: s, state: cluster.NewState(), view: newView(), patience: patience,
		last: map[key]int{}, touched: map[key]int32{},
	}
}

// State implements [cluster.Cluster]. It is the same pointer for the life of the Cluster.
func (c *Cluster) State() *cluster.State { return c.state }

// Namespace returns the namespace of the pods, which is also the value of the nodes' label
// kubernasium.io/environment; "" before the first use.
func (c *Cluster) Namespace() string { return c.namespace }

// Reset implements [cluster.Cluster]. After an error it lists the API server's objects again, so that it
// recovers from any change there.
func (c *Cluster) Reset(ctx context.Context) error {
	c.state.Reset()
	c.podNames = c.podNames[:0]
	if err := c.reset(ctx); err != nil {
		c.broken = fmt.Errorf("reset: %w", err)
		return err
	}
	c.broken = nil
	return nil
}

func (c *Cluster) reset(ctx context.Context) error {
	if err := c.connect(ctx); err != nil {
		return err
	}
	if c.broken != nil { // view and connection may be outdated
		c.unwatch()
		var err error
		if c.client, err = c.server.reconnect(ctx, c.client); err != nil {
			return err
		}
		if err := c.ensureNamespace(ctx); err != nil {
			return err
		}
	}
	c.view.forget()
	if c.broken != nil || c.view.present() {
		if err := c.deleteAll(ctx); err != nil {
			return err
		}
	}
	if c.broken != nil {
		if err := c.watch(ctx); err != nil {
			return err
		}
	}
	return c.view.wait(ctx, c.patience)
}

// connect creates the namespace and starts the watches, unless it has done so before.
func (c *Cluster) connect(ctx context.Context) error {
	if c.namespace != "" {
		return nil
	}
	client, err := c.server.connect(ctx)
	if err != nil {
		return err
	}
	c.client = client
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// The name is short: node names consist of it and a name of up to 242 bytes.
	ns, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "rl-", Labels: map[string]string{labelEnvironment: ""}},
	}, metav1.CreateOptions{})
	if err != nil {
		return wrapAPI("create namespace", err)
	}
	c.namespace = ns.Name
	return c.watch(ctx)
}

// ensureNamespace creates the namespace again if it no longer exists, as after a restart of the control plane.
// A terminating namespace accepts no objects, so ensureNamespace waits until it is gone.
func (c *Cluster) ensureNamespace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	what := "create namespace " + c.namespace
	return until(ctx, deleteTimeout, func() (bool, string, error) {
		_, err := c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: c.namespace, Labels: map[string]string{labelEnvironment: ""}},
		}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err == nil, "", wrapAPI(what, err)
		}
		ns, err := c.client.CoreV1().Namespaces().Get(ctx, c.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) { // deleted in between
			return false, what, nil
		}
		return err == nil && ns.DeletionTimestamp == nil, "namespace " + c.namespace + " is still being deleted", wrapAPI(what, err)
	})
}

// watch starts the watches and waits until they have listed their objects.
func (c *Cluster) watch(ctx context.Context) error {
	running, stop := context.WithCancel(context.Background())
	c.stop, c.watchers = stop, watchers(c.client, c.namespace, c.view)
	for _, w := range c.watchers {
		c.view.watching(w.kind, errors.New("not listed yet"))
		c.watching.Go(func() { w.run(running) })
	}
	return c.view.listed(ctx, c.patience)
}

func (c *Cluster) unwatch() {
	if c.stop != nil {
		c.stop()
		c.watching.Wait()
		c.stop = nil
	}
}

// noGracePeriod is the option to delete at once: nothing runs in simulated pods.
func noGracePeriod() metav1.DeleteOptions {
	return metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
}

// deleteAll deletes the pods and nodes of the environment.
func (c *Cluster) deleteAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if err := c.client.CoreV1().Pods(c.namespace).DeleteCollection(ctx, noGracePeriod(), metav1.ListOptions{}); err != nil {
		return wrapAPI("delete pods", err)
	}
	err := c.client.CoreV1().Nodes().DeleteCollection(ctx, noGracePeriod(), metav1.ListOptions{LabelSelector: labelEnvironment + "=" + c.namespace})
	return wrapAPI("delete nodes", err)
}

// Apply implements [cluster.Cluster]. It applies ops on different objects at the same time. An error that is
// not a [*cluster.OpError] wraps [cluster.ErrUnavailable] or [ErrDiverged], or holds the API server's reason
// for rejecting a call. The cluster must then be Reset.
func (c *Cluster) Apply(ctx context.Context, ops []cluster.Op) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	var illegal error
	for i := range ops {
		if err := c.state.Check(&ops[i]); err != nil {
			illegal = &cluster.OpError{Index: i, Op: ops[i], Err: err}
			break
		}
		if err := c.plan(&ops[i]); err != nil {
			return err
		}
	}
	if err := c.carryOut(ctx); err != nil {
		return err
	}
	return illegal
}

// Advance implements [cluster.Cluster]. Its errors are those of Apply; it wraps [cluster.ErrInvalid] if d is
// negative or too large.
func (c *Cluster) Advance(ctx context.Context, d time.Duration) error {
	if err := c.state.CheckAdvance(d); err != nil {
		return err
	}
	if err := c.ready(ctx); err != nil {
		return err
	}
	s := c.state
	until := s.Now + d
	for _, e := range c.endings(until) {
		s.Now = e.at
		if err := s.Complete(e.pod); err != nil {
			return err
		}
		c.annotate(e.pod, map[string]string{annotationComplete: completeNow})
	}
	s.Now = until
	return c.carryOut(ctx)
}

// ending is the completion of a pod.
type ending struct {
	at  time.Duration
	pod int32
}

// endings returns the pods that complete by a time, in the order of time, then of index.
func (c *Cluster) endings(until time.Duration) []ending {
	var list []ending
	for i := range c.state.Pods {
		if at, ok := c.state.Pods[i].EndsAt(); ok && at <= until {
			list = append(list, ending{at, int32(i)})
		}
	}
	slices.SortStableFunc(list, func(a, b ending) int { return cmp.Compare(a.at, b.at) })
	return list
}

// ready connects, and returns an error if the cluster must be Reset.
func (c *Cluster) ready(ctx context.Context) error {
	if c.broken != nil {
		return fmt.Errorf("kwok: the cluster must be reset after an error: %w", c.broken)
	}
	return c.connect(ctx)
}

// Close implements [cluster.Cluster]: it deletes the environment's objects and its namespace.
func (c *Cluster) Close() error {
	c.unwatch()
	if c.namespace == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
	defer cancel()
	err := c.deleteAll(ctx)
	if err == nil {
		if err = c.client.CoreV1().Namespaces().Delete(ctx, c.namespace, noGracePeriod()); apierrors.IsNotFound(err) {
			err = nil
		}
		err = wrapAPI("delete namespace "+c.namespace, err)
	}
	c.namespace = ""
	return err
}
