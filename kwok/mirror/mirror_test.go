package mirror

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/all"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// world is a cluster as kube-scheduler's snapshot shows it: nodes with generations, in any order.
type world struct {
	nodes      []*corev1.Node
	generation map[string]int64
	pods       map[string][]*corev1.Pod // by node
	clock      int64
}

var _ Source = (*world)(nil)

func (w *world) Len() int                         { return len(w.nodes) }
func (w *world) Node(i int) (*corev1.Node, int64) { return w.nodes[i], w.generation[w.nodes[i].Name] }
func (w *world) Pods(i int) iter.Seq[*corev1.Pod] { return slices.Values(w.pods[w.nodes[i].Name]) }

func newWorld(nodes ...*corev1.Node) *world {
	w := &world{generation: map[string]int64{}, pods: map[string][]*corev1.Pod{}}
	for _, n := range nodes {
		w.add(n)
	}
	return w
}

func (w *world) touch(node string) {
	w.clock++
	w.generation[node] = w.clock
}

func (w *world) add(n *corev1.Node) {
	w.nodes = append(w.nodes, n)
	w.touch(n.Name)
}

func (w *world) place(p *corev1.Pod, node string) {
	w.pods[node] = append(w.pods[node], p)
	w.touch(node)
}

func madeNode(name string, milliCPU, mebi, pods int64) *corev1.Node {
	have := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(milliCPU, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(mebi<<20, resource.BinarySI),
		corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI),
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}, Status: corev1.NodeStatus{Allocatable: have}}
}

func withGPUs(n *corev1.Node, gpus string) *corev1.Node {
	n.Annotations["kubernasium.io/gpus"], n.Annotations["kubernasium.io/milli-gpu"], n.Annotations["kubernasium.io/gpu-model"] = gpus, "1000", "T4"
	return n
}

func madePod(name string, milliCPU, mebi int64) *corev1.Pod {
	size := corev1.ResourceList{}
	if milliCPU > 0 {
		size[corev1.ResourceCPU] = *resource.NewMilliQuantity(milliCPU, resource.DecimalSI)
	}
	if mebi > 0 {
		size[corev1.ResourceMemory] = *resource.NewQuantity(mebi<<20, resource.BinarySI)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "a", Resources: corev1.ResourceRequirements{Requests: size}}}},
	}
}

func onGPU(p *corev1.Pod, milli, devices string) *corev1.Pod {
	p.Annotations["kubernasium.io/gpus"], p.Annotations["kubernasium.io/milli-gpu"] = "1", milli
	if devices != "" {
		p.Annotations["kubernasium.io/devices"] = devices
	}
	return p
}

func ownedBy(p *corev1.Pod, name string) *corev1.Pod {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: name, UID: types.UID(name), Controller: &yes}}
	return p
}

// picture is what of a mirror can be seen, without the indices of pods, which depend on its past.
type picture struct {
	Nodes    []cluster.Node
	Devices  []cluster.Device
	Names    []string
	Racks    []int32
	Pods     map[types.UID]cluster.Pod // on nodes, and those that wait
	Siblings map[types.UID][]types.UID
	Extra    []cluster.Resources
	Extras   int
	Over     []bool
}

func pictureOf(m *Mirror) picture {
	p := picture{
		Nodes: slices.Clone(m.state.Nodes), Devices: slices.Clone(m.state.Devices), Names: m.set.names, Racks: m.set.racks,
		Pods: map[types.UID]cluster.Pod{}, Siblings: map[types.UID][]types.UID{}, Extra: m.extra, Extras: m.extras,
	}
	for i := range m.nodes {
		p.Over = append(p.Over, m.nodes[i].over)
	}
	for i := range p.Nodes {
		p.Nodes[i].Meta = 0 // names are compared
	}
	uids := map[int32]types.UID{}
	for _, all := range []map[types.UID]*podEntry{m.pods, m.pending} {
		for uid, e := range all {
			if e.index >= 0 {
				pod := m.state.Pods[e.index]
				pod.Meta = 0
				p.Pods[uid], uids[e.index] = pod, uid
			}
		}
	}
	for c, list := range m.siblings {
		for _, i := range list {
			p.Siblings[c] = append(p.Siblings[c], uids[i])
		}
		slices.Sort(p.Siblings[c])
	}
	return p
}

func mustSync(t *testing.T, m *Mirror, src Source) {
	t.Helper()
	if err := m.Sync(src); err != nil {
		t.Fatal(err)
	}
}

// event changes the world, and passes to the mirrors what their callers would.
func (w *world) event(rng *rand.Rand, next *int, waiting map[types.UID]*corev1.Pod, update func(func(m *Mirror))) {
	node := func() string { return w.nodes[rng.IntN(len(w.nodes))].Name }
	fresh := func() *corev1.Pod {
		*next++
		p := madePod(fmt.Sprintf("p%d", *next), int64(rng.IntN(8)*250), int64(rng.IntN(8)*256))
		p.CreationTimestamp = metav1.NewTime(time.Unix(int64(*next/3), 0))
		if rng.IntN(2) == 0 {
			ownedBy(p, []string{"web", "db"}[rng.IntN(2)])
		}
		if rng.IntN(2) == 0 {
			onGPU(p, []string{"200", "500", "1000"}[rng.IntN(3)], []string{"", "0", "1"}[rng.IntN(3)])
		}
		return p
	}
	pick := func(name string) (int, bool) {
		if len(w.pods[name]) == 0 {
			return 0, false
		}
		return rng.IntN(len(w.pods[name])), true
	}
	name := node()
	switch rng.IntN(14) {
	case 0: // a node comes
		*next++
		n := madeNode(fmt.Sprintf("n%d", *next), 4000, 8192, 6)
		if rng.IntN(2) == 0 {
			withGPUs(n, "2")
		}
		if rng.IntN(3) > 0 {
			n.Labels["rack"] = []string{"x", "y"}[rng.IntN(2)]
		}
		if rng.IntN(5) == 0 {
			n.Labels["skip"] = ""
		}
		w.add(n)
	case 1: // a node goes, with its pods
		if len(w.nodes) > 2 {
			for _, p := range w.pods[name] {
				update(func(m *Mirror) { m.RemovePending(p.UID) })
			}
			w.nodes = slices.DeleteFunc(w.nodes, func(n *corev1.Node) bool { return n.Name == name })
			delete(w.pods, name)
		}
	case 2: // labels or size of a node change
		for i, n := range w.nodes {
			if n.Name == name {
				n = n.DeepCopy()
				if rng.IntN(2) == 0 {
					n.Labels["rack"] = []string{"x", "y", "z"}[rng.IntN(3)]
				} else {
					n.Status.Allocatable[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(2000+rng.IntN(4)*1000), resource.DecimalSI)
				}
				w.nodes[i] = n
				w.touch(name)
			}
		}
	case 3: // a heartbeat
		for i, n := range w.nodes {
			if n.Name == name {
				w.nodes[i] = n.DeepCopy()
				w.touch(name)
			}
		}
	case 4, 5: // a pod ends
		if i, ok := pick(name); ok {
			update(func(m *Mirror) { m.RemovePending(w.pods[name][i].UID) })
			w.pods[name] = slices.Delete(slices.Clone(w.pods[name]), i, i+1)
			w.touch(name)
		}
	case 6: // in-place resize, other devices, or no change to policies
		if i, ok := pick(name); ok {
			p := w.pods[name][i].DeepCopy()
			switch rng.IntN(3) {
			case 0:
				p.Spec.Containers[0].Resources.Requests = madePod("", int64(1+rng.IntN(3000)), int64(1+rng.IntN(4000))).Spec.Containers[0].Resources.Requests
			case 1:
				p.Annotations["kubernasium.io/devices"] = []string{"0", "1"}[rng.IntN(2)]
			}
			w.pods[name] = slices.Clone(w.pods[name])
			w.pods[name][i] = p
			w.touch(name)
		}
	case 7, 8: // a pod waits
		p := fresh()
		waiting[p.UID] = p
		update(func(m *Mirror) { m.AddPending(p) })
	case 9: // one of them is deleted
		if uid, ok := first(waiting); ok {
			delete(waiting, uid)
			update(func(m *Mirror) { m.RemovePending(uid) })
		}
	case 10, 11: // one of them is placed, with reserved devices
		uid, ok := first(waiting)
		if !ok {
			break
		}
		p := waiting[uid]
		delete(waiting, uid)
		if rng.IntN(2) == 0 {
			devices := uint64(1) << rng.IntN(2)
			update(func(m *Mirror) { m.Reserve(uid, devices) })
		}
		w.place(p, name)
		i := slices.IndexFunc(w.nodes, func(n *corev1.Node) bool { return n.Name == name })
		if _, skipped := w.nodes[i].Labels["skip"]; skipped || rng.IntN(2) == 0 { // informers may say so later
			update(func(m *Mirror) { m.RemovePending(uid) })
		}
	case 12: // the snapshot has another order
		rng.Shuffle(len(w.nodes), func(i, j int) { w.nodes[i], w.nodes[j] = w.nodes[j], w.nodes[i] })
	default: // a pod that another scheduler placed
		w.place(fresh(), name)
	}
}

// first returns the least UID of the pods, if there are any.
func first(pods map[types.UID]*corev1.Pod) (types.UID, bool) {
	if len(pods) == 0 {
		return "", false
	}
	return slices.Min(slices.Collect(maps.Keys(pods))), true
}

// TestMirrorEqualsRebuild: after any sequence of events the mirror that has followed them equals one
// that is made from scratch, and policies choose alike on both.
func TestMirrorEqualsRebuild(t *testing.T) {
	selector, err := labels.Parse("!skip")
	if err != nil {
		t.Fatal(err)
	}
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(withGPUs(madeNode("n1", 4000, 8192, 6), "2"), madeNode("n2", 8000, 8192, 6), withGPUs(madeNode("n10", 4000, 16384, 3), "1"))
		next, waiting := 100, map[types.UID]*corev1.Pod{}
		m := New(selector)
		var policies []*live.Policy
		for _, args := range []live.Args{{Baseline: "Greedy"}, {Baseline: "FGD", Env: "k8s/GPUPodScheduling-v0"}} {
			p, err := live.Open(args, 3)
			if err != nil {
				t.Fatal(err)
			}
			policies = append(policies, p)
		}
		asked := 0
		for step := range 300 {
			w.event(rng, &next, waiting, func(f func(*Mirror)) { f(m) })
			if rng.IntN(3) == 0 {
				continue // several events between two decisions
			}
			reserved := maps.Clone(m.reserved)
			mustSync(t, m, w)
			anew := New(selector)
			for uid, devices := range reserved {
				anew.Reserve(uid, devices)
			}
			for _, p := range waiting {
				anew.AddPending(p)
			}
			mustSync(t, anew, w)
			if d := cmp.Diff(pictureOf(anew), pictureOf(m)); d != "" {
				t.Fatalf("seed %d, step %d (-anew +followed):\n%s", seed, step, d)
			}
			q := Question{Pod: ownedBy(onGPU(madePod("asked", 500, 512), "300", ""), "web"), Replicas: 4, Now: time.Unix(1000, 0)}
			for _, n := range w.nodes {
				q.Open = append(q.Open, n.Name)
			}
			for i, policy := range policies {
				var names []string
				for _, on := range []*Mirror{anew, m} {
					name, devices, err := on.Ask(q, func(s *cluster.State, d envs.Decision) (int32, uint64, error) {
						c, err := policy.Choose(t.Context(), s, d)
						return c.Node, c.Devices, err
					})
					names = append(names, fmt.Sprint(name, devices, err))
				}
				if names[0] != names[1] {
					t.Fatalf("seed %d, step %d: policy %d chooses %s anew, %s followed", seed, step, i, names[0], names[1])
				}
				if strings.Contains(names[0], "<nil>") {
					asked++
				}
			}
			if d := cmp.Diff(pictureOf(anew), pictureOf(m)); d != "" {
				t.Fatalf("seed %d, step %d: Ask changed the state (-anew +followed):\n%s", seed, step, d)
			}
		}
		if asked < 20 {
			t.Errorf("seed %d: %d choices, want 20 at least for this test", seed, asked)
		}
	}
}

// TestSync: nodes in their natural order; a node with more on it than it has shows full; devices that
// pods say, or the first that are free; racks by label. Hand-worked.
func TestSync(t *testing.T) {
	var nodes []*corev1.Node
	for i, name := range []string{"n10", "n2", "n1"} {
		n := withGPUs(madeNode(name, 4000, 8192, []int64{10, 10, 2}[i]), "2")
		n.Labels["rack"] = []string{"r1", "r0", "r1"}[i]
		nodes = append(nodes, n)
	}
	w := newWorld(nodes...)
	for _, p := range []*corev1.Pod{madePod("a-too-much", 6000, 1024), madePod("b-second", 0, 0), madePod("c-third", 0, 0)} {
		w.place(p, "n1") // of at most 2
	}
	w.place(onGPU(madePod("says", 1000, 1024), "700", "1"), "n2")
	w.place(onGPU(madePod("silent", 1000, 1024), "600", ""), "n2")
	m := New(nil)
	m.AddPending(madePod("waits", 1000, 1024))
	mustSync(t, m, w)
	names, index := m.Nodes()
	if !slices.Equal(names, []string{"n1", "n2", "n10"}) || index["n10"] != 2 || !slices.Equal(m.set.racks, []int32{0, 1, 0}) {
		t.Errorf("nodes %v in racks %v, want n1, n2, n10 in 0, 1, 0", names, m.set.racks)
	}
	if n := m.state.Nodes[0]; n.Requested.MilliCPU != 4000 || n.NumPods != 2 {
		t.Errorf("n1 has %d pods with %d milli-CPU, want it full: 2 and 4000", n.NumPods, n.Requested.MilliCPU)
	}
	if got, want := fmt.Sprint(m.state.NodeDevices(1)), "[{1000 400} {1000 300}]"; got != want {
		t.Errorf("devices of n2 %s, want %s: one pod says its device, the other takes the first", got, want)
	}
	q := Question{Pod: onGPU(madePod("p", 100, 100), "500", ""), Open: []string{"n1", "n2", "n10", "unknown"}, Now: time.Unix(60, 0)}
	q.Pod.CreationTimestamp = metav1.NewTime(time.Unix(50, 0))
	mask := make([]bool, 3)
	see := func(s *cluster.State, d envs.Decision) (int32, uint64, error) {
		s.FitMask(d.Pod, mask)
		if p := s.Pods[d.Pod]; p.MilliGPU != 500 || p.Phase != cluster.Pending || d.Waited != 10*time.Second || len(s.Pods) != 6 {
			t.Errorf("pod %+v of %d, waited %v, want 500 thousandths, pending, 10 s, of 2 + 2 on nodes and 2 that wait", p, len(s.Pods), d.Waited)
		}
		return 2, 1, nil
	}
	if name, devices, err := m.Ask(q, see); name != "n10" || devices != 1 || err != nil {
		t.Errorf("Ask = %s, %d, %v, want the choice: n10, 1", name, devices, err)
	}
	if !slices.Equal(mask, []bool{false, false, true}) {
		t.Errorf("fits %v, want n10 alone: n1 is full, n2 has 400 and 300 left", mask)
	}
	// A GPU pod beyond the devices: they are not to be trusted.
	w.place(onGPU(madePod("z-more", 100, 100), "1000", ""), "n2")
	mustSync(t, m, w)
	q.Pod = onGPU(madePod("p", 100, 100), "100", "")
	fits := func(s *cluster.State, d envs.Decision) (int32, uint64, error) {
		s.FitMask(d.Pod, mask)
		return 0, 0, nil
	}
	if _, _, err := m.Ask(q, fits); err != nil || mask[1] {
		t.Errorf("fits %v, %v, want n2 closed", mask, err)
	}
}

// TestReserve: reserved devices count until the pod says others, or leaves.
func TestReserve(t *testing.T) {
	w := newWorld(withGPUs(madeNode("n1", 4000, 8192, 6), "2"))
	m := New(nil)
	m.Reserve("p", 1<<1)
	w.place(onGPU(madePod("p", 100, 100), "400", ""), "n1")
	mustSync(t, m, w)
	free := func() string { return fmt.Sprint(m.state.NodeDevices(0)) }
	if got := free(); got != "[{1000 1000} {1000 600}]" {
		t.Errorf("devices %s, want 400 of the second taken", got)
	}
	w.pods["n1"] = []*corev1.Pod{onGPU(madePod("p", 100, 100), "400", "0")}
	w.touch("n1")
	mustSync(t, m, w)
	if got := free(); got != "[{1000 600} {1000 1000}]" || m.Reserved("p") != 0 {
		t.Errorf("devices %s, reserved %b, want what the pod says, and no reservation", got, m.Reserved("p"))
	}
	m.Reserve("q", 1)
	w.place(onGPU(madePod("q", 100, 100), "100", ""), "n1")
	mustSync(t, m, w)
	w.pods["n1"] = nil
	w.touch("n1")
	mustSync(t, m, w)
	if m.Reserved("q") != 0 {
		t.Error("a pod that has left its node has a reservation")
	}
}

// TestSyncAfterError: an error midway makes the next Sync start from scratch.
func TestSyncAfterError(t *testing.T) {
	w := newWorld(madeNode("n1", 4000, 8192, 6), madeNode("n2", 4000, 8192, 6))
	m := New(nil)
	mustSync(t, m, w)
	huge := madePod("huge", 1000, 1000)
	w.place(madePod("a", 500, 500), "n2")
	w.place(huge, "n1")
	m.nodes[0].pods["corrupt"] = &podEntry{podInfo: readPod(madePod("corrupt", 1, 1)), index: 99} // no such pod
	if err := m.Sync(w); err == nil {
		t.Fatal("no error")
	}
	mustSync(t, m, w)
	anew := New(nil)
	mustSync(t, anew, w)
	if d := cmp.Diff(pictureOf(anew), pictureOf(m)); d != "" {
		t.Errorf("after an error (-anew +followed):\n%s", d)
	}
}

// TestDevicesOf: hand-worked as in TestSync: the pods leave 400 and 300 of the devices.
func TestDevicesOf(t *testing.T) {
	n := withGPUs(madeNode("n2", 4000, 8192, 10), "2")
	pods := []*corev1.Pod{onGPU(madePod("says", 1000, 1024), "700", "1"), onGPU(madePod("reserved", 1000, 1024), "600", "")}
	d, err := DevicesOf(n, slices.Values(pods), func(uid types.UID) uint64 { return map[types.UID]uint64{"reserved": 1}[uid] })
	if err != nil {
		t.Fatal(err)
	}
	two := onGPU(madePod("p", 1, 1), "300", "")
	two.Annotations["kubernasium.io/gpus"] = "2"
	other := onGPU(madePod("p", 1, 1), "300", "")
	other.Annotations["kubernasium.io/gpu-model"] = "P100"
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want uint64
		ok   bool
	}{
		"first": {onGPU(madePod("p", 1, 1), "300", ""), 1, true}, "too much": {onGPU(madePod("p", 1, 1), "500", ""), 0, false},
		"both": {two, 3, true}, "none wanted": {madePod("p", 1, 1), 0, true}, "other model": {other, 0, false},
	} {
		if got, ok := d.Pick(tc.pod); got != tc.want || ok != tc.ok {
			t.Errorf("%s: %b, %v, want %b, %v", name, got, ok, tc.want, tc.ok)
		}
	}
}
