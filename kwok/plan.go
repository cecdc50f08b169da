package kwok

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/metricsapi"
)

// inFlight limits the concurrent calls. With 32 the API server is the bottleneck.
const inFlight = 32

// A task is an API call that runs after earlier tasks on the same objects. It returns the resource version that
// it wrote, or "" if the call returns none.
type task struct {
	what  string // what it does, for error messages
	key   key
	after []int // indices of earlier tasks
	call  func(ctx context.Context) (version string, err error)
}

// add appends a task on k, the node or pod of index i. It runs after the earlier tasks on k and also.
func (c *Cluster) add(what string, i int32, k key, call func(ctx context.Context) (string, error), also ...key) {
	t := task{what: what + " " + k.String(), key: k, call: call}
	for _, o := range append(also, k) {
		if i, ok := c.last[o]; ok {
			t.after = append(t.after, i)
		}
	}
	c.last[k] = len(c.tasks)
	c.touched[k] = i
	c.tasks = append(c.tasks, t)
}

func (c *Cluster) podKey(i int32) key  { return key{kindPod, c.podNames[i]} }
func (c *Cluster) nodeKey(i int32) key { return key{kindNode, c.nodeName(i)} }

// nodeName returns the name of node i in the API. The namespace makes it unique among environments.
func (c *Cluster) nodeName(i int32) string { return c.namespace + "." + c.state.NodeName(i) }

// maxPrefix limits the part of a pod's name that comes from its metadata; the API accepts 253 bytes.
const maxPrefix = 200

// namePod gives pod i a name that no pod of this Cluster has had. KWOK deletes a pod a little after the API
// call, and would delete a new pod of the same name.
func (c *Cluster) namePod(i int32) {
	prefix := c.state.Meta(c.state.Pods[i].Meta).Name
	prefix = strings.TrimRight(prefix[:min(len(prefix), maxPrefix)], ".-")
	c.named++
	c.podNames[i] = fmt.Sprintf("%s-%d-%d", prefix, i, c.named)
}

// plan applies a legal op to the State and adds the tasks that make the same change in the API.
func (c *Cluster) plan(op *cluster.Op) error {
	s := c.state
	var lost []int32 // pods that the API server removes
	switch op.Kind {
	case cluster.RemoveNode:
		for i := range s.Pods {
			if p := &s.Pods[i]; p.Node == op.Node && (p.Phase == cluster.Running || p.Phase == cluster.Succeeded) {
				lost = append(lost, int32(i))
			}
		}
	case cluster.Delete:
		if c.wantPod(op.Pod) != nil {
			lost = append(lost, op.Pod)
		}
	}
	if err := s.Apply(op); err != nil {
		return err
	}
	var pods []key
	for _, i := range lost {
		c.deletePod(i)
		pods = append(pods, c.podKey(i))
	}
	switch op.Kind {
	case cluster.AddNode:
		c.createNode(int32(len(s.Nodes)) - 1)
	case cluster.Cordon, cluster.Uncordon:
		c.cordon(op.Node)
	case cluster.RemoveNode:
		c.deleteNode(op.Node, pods)
	case cluster.AddPod:
		c.podNames = append(c.podNames, "")
		c.createPod(int32(len(s.Pods)) - 1)
	case cluster.Bind:
		c.bind(op.Pod)
	case cluster.Evict:
		c.evict(op.Pod)
	case cluster.Resize:
		c.resize(op.Pod)
	case cluster.SetUsage:
		annotations := usage(op.Resources)
		annotations[metricsapi.AnnotationTime] = time.Unix(0, int64(c.state.Now)).UTC().Format(time.RFC3339)
		c.annotate(op.Pod, annotations)
	}
	return nil
}

func (c *Cluster) createNode(i int32) {
	node := c.nodeOf(i)
	c.add("create", i, c.nodeKey(i), func(ctx context.Context) (string, error) {
		n, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		return n.ResourceVersion, nil
	})
}

func (c *Cluster) cordon(i int32) {
	name := c.nodeName(i)
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, c.state.Nodes[i].Unschedulable)
	c.add("cordon", i, c.nodeKey(i), func(ctx context.Context) (string, error) {
		n, err := c.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return "", err
		}
		return n.ResourceVersion, nil
	})
}

// deleteNode deletes a node after its pods, which are deleted with it, are gone.
func (c *Cluster) deleteNode(i int32, pods []key) {
	name := c.nodeName(i)
	c.add("delete", i, c.nodeKey(i), func(ctx context.Context) (string, error) {
		return "", c.client.CoreV1().Nodes().Delete(ctx, name, noGracePeriod())
	}, pods...)
}

// createPod creates pod i under a new name.
func (c *Cluster) createPod(i int32) {
	c.namePod(i)
	pod := c.podOf(i)
	c.add("create", i, c.podKey(i), func(ctx context.Context) (string, error) {
		p, err := c.client.CoreV1().Pods(c.namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		return p.ResourceVersion, nil
	})
}

// bind binds pod i by the binding subresource, which copies its annotations to the pod.
func (c *Cluster) bind(i int32) {
	p := &c.state.Pods[i]
	b := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: c.podNames[i], Namespace: c.namespace},
		Target:     corev1.ObjectReference{Kind: "Node", Name: c.nodeName(p.Node)},
	}
	if p.Devices != 0 {
		b.Annotations = map[string]string{annotationDevices: deviceList(p.Devices)}
	}
	c.add("bind", i, c.podKey(i), func(ctx context.Context) (string, error) {
		return "", c.client.CoreV1().Pods(c.namespace).Bind(ctx, b, metav1.CreateOptions{})
	}, c.nodeKey(p.Node))
}

func (c *Cluster) evict(i int32) {
	e := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: c.podNames[i], Namespace: c.namespace}, DeleteOptions: new(noGracePeriod())}
	c.add("evict", i, c.podKey(i), func(ctx context.Context) (string, error) {
		return "", c.client.CoreV1().Pods(c.namespace).EvictV1(ctx, e)
	})
}

func (c *Cluster) deletePod(i int32) {
	name := c.podNames[i]
	c.add("delete", i, c.podKey(i), func(ctx context.Context) (string, error) {
		return "", c.client.CoreV1().Pods(c.namespace).Delete(ctx, name, noGracePeriod())
	})
}

// resize changes pod i in place by the resize subresource. The API server rejects a change of the pod's QoS
// class, the removal of a limit, and pods whose status does not report their resources; recreate replaces such
// pods.
func (c *Cluster) resize(i int32) {
	pod := c.podOf(i)
	limits := map[string]any{"cpu": nil, "memory": nil} // null removes a limit
	for name, q := range pod.Spec.Containers[0].Resources.Limits {
		limits[string(name)] = q
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
		"name": container, "resources": map[string]any{"requests": pod.Spec.Containers[0].Resources.Requests, "limits": limits},
	}}}})
	c.add("resize", i, c.podKey(i), func(ctx context.Context) (string, error) {
		if err != nil {
			return "", err
		}
		p, err := c.client.CoreV1().Pods(c.namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize")
		switch {
		case err == nil:
			return p.ResourceVersion, nil
		case apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
			c.recordUnresizable(i)
			return "", nil
		}
		return "", err
	})
}

// recordUnresizable records that pod i cannot be resized in place.
func (c *Cluster) recordUnresizable(i int32) {
	c.unresizableMu.Lock()
	defer c.unresizableMu.Unlock()
	c.unresizable = append(c.unresizable, i)
}

// recreate plans to replace the pods that could not be resized in place by new ones with the same state on the
// same nodes. It reports whether there are any.
func (c *Cluster) recreate() bool {
	any := false
	slices.Sort(c.unresizable)
	for _, i := range slices.Compact(c.unresizable) {
		if c.wantPod(i) != nil {
			c.deletePod(i)
			c.createPod(i)
			any = true
		}
	}
	c.unresizable = c.unresizable[:0]
	return any
}

func (c *Cluster) annotate(i int32, annotations map[string]string) {
	name := c.podNames[i]
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	c.add("annotate", i, c.podKey(i), func(ctx context.Context) (string, error) {
		if err != nil {
			return "", err
		}
		p, err := c.client.CoreV1().Pods(c.namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return "", err
		}
		return p.ResourceVersion, nil
	})
}

// carryOut makes the planned calls and waits until the watches show their effect.
func (c *Cluster) carryOut(ctx context.Context) error {
	c.expectTouched()
	err := c.call(ctx)
	if err == nil && c.recreate() {
		c.expectTouched()
		err = c.call(ctx)
	}
	if err == nil {
		err = c.view.wait(ctx, c.patience)
	} else if ctx.Err() != nil { // the caller's time is over, not the API server's
		err = fmt.Errorf("kwok: %w", ctx.Err())
	}
	clear(c.touched)
	c.unresizable = c.unresizable[:0]
	c.broken = err
	return err
}

// expectTouched sets the view's expectations for the touched objects.
func (c *Cluster) expectTouched() {
	for k, i := range c.touched {
		var want record
		switch {
		case k.kind == kindNode:
			want = c.wantNode(i)
		case c.podNames[i] == k.name: // otherwise it has a new name
			want = c.wantPod(i)
		}
		c.view.expect(k, want)
	}
}

// call makes the calls of all tasks. It starts tasks in order, so that a task never waits for a later one.
func (c *Cluster) call(ctx context.Context) error {
	defer func() {
		clear(c.tasks) // for the garbage collector
		c.tasks = c.tasks[:0]
		clear(c.last)
	}()
	if len(c.tasks) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make([]chan struct{}, len(c.tasks))
	for i := range done {
		done[i] = make(chan struct{})
	}
	var next atomic.Int64
	var first sync.Once
	var failure error
	worker := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(c.tasks) {
				return
			}
			t := &c.tasks[i]
			for _, before := range t.after {
				<-done[before]
			}
			if err := c.do(ctx, t); err != nil {
				first.Do(func() { failure = err; cancel() })
			}
			close(done[i])
		}
	}
	var workers sync.WaitGroup
	for range min(inFlight, len(c.tasks)) - 1 {
		workers.Go(worker)
	}
	worker()
	workers.Wait()
	return failure
}

// do makes the call of one task.
func (c *Cluster) do(ctx context.Context, t *task) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	version, err := t.call(ctx)
	switch {
	case err == nil:
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %s: %w", ErrDiverged, t.what, err)
	default:
		return wrapAPI(t.what, err)
	}
	if version != "" {
		c.view.written(t.key, parseVersion(version))
	}
	return nil
}
