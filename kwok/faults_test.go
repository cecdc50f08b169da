package kwok

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

var ctx = context.Background()

// start gives c two nodes and n pods, of which those with even indices are bound to node 0.
func start(t *testing.T, c cluster.Cluster, n int) {
	t.Helper()
	s := c.State()
	size := cluster.Resources{MilliCPU: 64000, MemoryBytes: 1 << 38}
	ops := []cluster.Op{
		{Kind: cluster.AddNode, Meta: s.Intern(cluster.Meta{Name: "a"}), Resources: size},
		{Kind: cluster.AddNode, Meta: s.Intern(cluster.Meta{Name: "b"}), Resources: size},
	}
	web := s.Intern(cluster.Meta{Name: "web"})
	for i := range n {
		ops = append(ops, cluster.Op{Kind: cluster.AddPod, Meta: web, Resources: cluster.Resources{MilliCPU: 100, MemoryBytes: 1 << 20}, Duration: time.Minute})
		if i%2 == 0 {
			ops = append(ops, cluster.Op{Kind: cluster.Bind, Pod: int32(i)})
		}
	}
	if err := c.Apply(ctx, ops); err != nil {
		t.Fatal(err)
	}
}

// recovers resets c and sees that it plays on.
func recovers(t *testing.T, c *Cluster) {
	t.Helper()
	if err := c.Apply(ctx, nil); err == nil {
		t.Error("Apply before Reset succeeds after an error")
	}
	if err := c.Reset(ctx); err != nil {
		t.Fatalf("Reset after an error: %v", err)
	}
	start(t, c, 4)
	if err := c.Advance(ctx, time.Minute); err != nil {
		t.Fatalf("Advance after the Reset: %v", err)
	}
	want := sim.New()
	start(t, want, 4)
	if err := want.Advance(ctx, time.Minute); err != nil {
		t.Fatal(err)
	}
	if d := cluster.Diff(want.State(), c.State()); d != "" {
		t.Errorf("after the Reset (-sim +kwok):\n%s", d)
	}
}

// diverges tries until an Advance sees that objects differ, as watches show it when they do.
func diverges(t *testing.T, c *Cluster, want ...string) {
	t.Helper()
	defer func(was time.Duration) { c.patience = was }(c.patience)
	c.patience = 2 * time.Second
	var err error
	for deadline := time.Now().Add(time.Minute); err == nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		err = c.Advance(ctx, 0)
	}
	if !errors.Is(err, ErrDiverged) {
		t.Fatalf("Advance = %v, want ErrDiverged", err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q:\n%v", w, err)
		}
	}
}

func opened(t *testing.T) *Cluster {
	t.Helper()
	c := open(t)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	start(t, c, 4)
	return c
}

// TestNodeDeleted: somebody deletes a node under its pods.
func TestNodeDeleted(t *testing.T) {
	c := opened(t)
	if err := c.client.CoreV1().Nodes().Delete(ctx, c.nodeName(0), noGracePeriod()); err != nil {
		t.Fatal(err)
	}
	diverges(t, c, "node "+c.nodeName(0), "found     absent", "predicted {Allocatable:64 CPU")
	recovers(t, c)
}

// TestForeignPod: somebody creates a pod in the environment's namespace. Reset removes it.
func TestForeignPod(t *testing.T) {
	c := opened(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := c.client.CoreV1().Pods(c.Namespace()).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	diverges(t, c, "pod foreign is not of this environment")
	recovers(t, c)
}

// TestPodDeleted: somebody deletes a running pod.
func TestPodDeleted(t *testing.T) {
	c := opened(t)
	if err := c.client.CoreV1().Pods(c.Namespace()).Delete(ctx, c.podNames[0], noGracePeriod()); err != nil {
		t.Fatal(err)
	}
	diverges(t, c, "pod "+c.podNames[0], "Phase:Running", "found     absent")
	recovers(t, c)
}

// TestBindConflict: another scheduler binds a pod first.
func TestBindConflict(t *testing.T) {
	c := opened(t)
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: c.podNames[1]}, Target: corev1.ObjectReference{Kind: "Node", Name: c.nodeName(1)}}
	if err := c.client.CoreV1().Pods(c.Namespace()).Bind(ctx, b, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := c.Apply(ctx, []cluster.Op{{Kind: cluster.Bind, Pod: 1}})
	if !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), "already assigned to node") && !strings.Contains(err.Error(), c.nodeName(1)) {
		t.Fatalf("Bind of a pod that is bound elsewhere = %v, want ErrDiverged", err)
	}
	recovers(t, c)
}

// network is a connection whose watches can be cut and answered for, and that counts refusals.
type network struct {
	next        http.RoundTripper
	mu          sync.Mutex
	open        []*cutter
	expired     atomic.Int64 // how many of the next watches are answered with 410 Gone
	unresizable atomic.Int64 // answers 429
	token       string       // in place of the kubeconfig's
}

type cutter struct {
	io.ReadCloser
	cut atomic.Bool
}

// Read ends where the connection was cut.
func (c *cutter) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.cut.Load() {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	watch := r.URL.Query().Get("watch") != ""
	if watch && n.expired.Add(-1) >= 0 {
		return &http.Response{
			StatusCode: http.StatusGone, Request: r, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)),
		}, nil
	}
	resp, err := n.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		n.unresizable.Add(1)
	}
	if watch {
		c := &cutter{ReadCloser: resp.Body}
		resp.Body = c
		n.mu.Lock()
		n.open = append(n.open, c)
		n.mu.Unlock()
	}
	return resp, nil
}

// cut ends the watches that are open.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.open {
		c.cut.Store(true)
		_ = c.Close() // ends a Read that waits
	}
	n.open = nil
}

// through returns a cluster on the control plane whose connection is n.
func (n *network) through(t *testing.T, kubeconfig string) *Cluster {
	t.Helper()
	s, err := newServer(Options{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	s.wrap = func(rc *rest.Config) {
		if n.token != "" {
			rc.BearerToken = n.token
		}
		rc.Wrap(func(rt http.RoundTripper) http.RoundTripper { n.next = rt; return n })
	}
	c := newCluster(s)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// TestWatchDropped cuts the watches again and again while pods come and go, and has some of the
// resumptions refused because their version is too old.
func TestWatchDropped(t *testing.T) {
	n := &network{}
	c, want := n.through(t, kwoktest.Shared(t).Kubeconfig), sim.New()
	stop := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if i%20 == 19 {
				n.expired.Store(1)
			}
			n.cut()
		}
	})
	var lists, resumed int64
	for range 3 {
		for _, x := range []cluster.Cluster{c, want} {
			if err := x.Reset(ctx); err != nil {
				t.Fatal(err)
			}
			start(t, x, 60)
			for range 4 {
				if err := x.Advance(ctx, 20*time.Second); err != nil {
					t.Fatal(err)
				}
			}
		}
		if d := cluster.Diff(want.State(), c.State()); d != "" {
			t.Fatalf("with dropped watches (-sim +kwok):\n%s", d)
		}
	}
	close(stop)
	cutting.Wait()
	for _, w := range c.watchers {
		lists, resumed = lists+w.lists.Load(), resumed+w.resumed.Load()
	}
	t.Logf("%d resumptions, %d lists", resumed, lists)
	if resumed < 10 || lists < 3 {
		t.Errorf("%d resumptions and %d lists, want at least 10 and 3: the test did not cut", resumed, lists)
	}
}

// TestThrottled: an API server that takes one change at a time refuses some; they are repeated.
func TestThrottled(t *testing.T) {
	p := kwoktest.Start(t, "--components=kwok", "--extra=kube-apiserver:--max-mutating-requests-inflight=1")
	n := &network{token: serviceAccount(t, p.Kubeconfig)}
	c := n.through(t, p.Kubeconfig)
	start(t, c, 60)
	want := sim.New()
	start(t, want, 60)
	if d := cluster.Diff(want.State(), c.State()); d != "" {
		t.Errorf("throttled (-sim +kwok):\n%s", d)
	}
	if n.unresizable.Load() == 0 {
		t.Error("the API server refused nothing: the test did not throttle")
	}
	t.Logf("%d requests were refused", n.unresizable.Load())
}

// serviceAccount returns the token of a new service account: an API server never throttles those
// of the group system:masters.
func serviceAccount(t *testing.T, kubeconfig string) string {
	t.Helper()
	s, err := newServer(Options{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	client, err := s.connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	accounts := client.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "player"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(ctx, "player", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// TestKilled kills the control plane in mid-episode: the step fails with ErrUnavailable, and once
// it is back, at another address and with another or the same state, a reset recovers.
func TestKilled(t *testing.T) {
	for _, tc := range []struct {
		name string
		keep bool
	}{{"state kept", true}, {"state lost", false}} {
		t.Run(tc.name, func(t *testing.T) {
			dir, kubeconfig := t.TempDir(), filepath.Join(t.TempDir(), "kubeconfig")
			flags := []string{"--components=kwok", "--kubeconfig=" + kubeconfig}
			if tc.keep {
				flags = append(flags, "--data-dir="+dir)
			}
			first := kwoktest.Start(t, flags...)
			v, err := envs.Make("k8s/PodBalanceKwok-v0", 1, envs.VecOptions{Options: map[string]any{"kubeconfig": kubeconfig}})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := v.Step(ctx, []float32{0}); err != nil {
				t.Fatal(err)
			}
			if err := first.Kill(); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			if _, err := v.Step(ctx, []float32{1}); !errors.Is(err, cluster.ErrUnavailable) {
				t.Fatalf("step without a control plane: %v, want ErrUnavailable", err)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("the step failed after %v, want at once", took)
			}
			if _, err := v.Step(ctx, []float32{1}); !errors.Is(err, envs.ErrResetNeeded) {
				t.Errorf("the next step: %v, want ErrResetNeeded", err)
			}
			if _, err := v.Reset(ctx, envs.VecResetOptions{}); !errors.Is(err, cluster.ErrUnavailable) {
				t.Errorf("reset without a control plane: %v, want ErrUnavailable", err)
			}
			kwoktest.Start(t, flags...)
			b, err := v.Reset(ctx, envs.VecResetOptions{})
			if err != nil {
				t.Fatalf("reset with a new control plane: %v", err)
			}
			for range 5 {
				if b, err = v.Step(ctx, []float32{1}); err != nil {
					t.Fatal(err)
				}
			}
			if b.EpisodeLength[0] != 5 {
				t.Errorf("the episode has %d steps, want 5", b.EpisodeLength[0])
			}
		})
	}
}

// TestRealNodes: a control plane with a node that is not KWOK's is refused unless that is allowed.
func TestRealNodes(t *testing.T) {
	p := kwoktest.Start(t, "--components=kwok")
	c, err := Open(Options{Kubeconfig: p.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	start(t, c, 2)
	real := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine"}}
	if _, err := c.client.CoreV1().Nodes().Create(ctx, real, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, allow := range []bool{false, true} {
		d, err := Open(Options{Kubeconfig: p.Kubeconfig, AllowRealNodes: allow})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Reset(ctx); allow != (err == nil) || err != nil && !strings.Contains(err.Error(), "machine; allow_real_nodes") {
			t.Errorf("Reset with a real node, allowed %v: %v", allow, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestNeighbours: clusters at different times share a control plane.
func TestNeighbours(t *testing.T) {
	a, b := opened(t), opened(t)
	if err := a.Advance(ctx, time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := b.State().Pods[0].Phase; got != cluster.Running {
		t.Errorf("a pod of another environment is %v, want Running", got)
	}
	if err := b.Advance(ctx, time.Minute-1); err != nil {
		t.Fatal(err)
	}
	if err := a.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.Advance(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if got := b.State().Pods[0]; got.Phase != cluster.Succeeded || got.Ended != time.Minute {
		t.Errorf("the pod of one minute is %v, ended at %v; want Succeeded at 1m0s", got.Phase, got.Ended)
	}
}

// TestCancelled: the caller's deadline is the caller's, not the API server's fault.
func TestCancelled(t *testing.T) {
	c := opened(t)
	late, cancel := context.WithCancel(ctx)
	cancel()
	err := c.Apply(late, []cluster.Op{{Kind: cluster.Cordon}})
	if !errors.Is(err, context.Canceled) || errors.Is(err, cluster.ErrUnavailable) {
		t.Fatalf("Apply with a context that has ended = %v, want context.Canceled", err)
	}
	recovers(t, c)
}

// TestNamespaceDeleted: somebody deletes the namespace, which stays for as long as something in it does. In such a one
// nothing can be created: the Reset waits until it is gone, and makes it again.
func TestNamespaceDeleted(t *testing.T) {
	c := opened(t)
	const stays = "stays"
	maps := c.client.CoreV1().ConfigMaps(c.namespace)
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: stays, Finalizers: []string{"kubernasium.io/test"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.client.CoreV1().Namespaces().Delete(ctx, c.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	diverges(t, c, "found     absent")
	soon, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := c.Reset(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Reset while the namespace is being deleted = %v, want that it waits", err)
	}
	if _, err := maps.Patch(ctx, stays, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	recovers(t, c)
}
