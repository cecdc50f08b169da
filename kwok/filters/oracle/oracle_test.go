package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/kubernasium/kubernasium/kwok/filters"
)

const trials = 4000

// reasons are ours by upstream's.
var reasons = map[string]string{
	interpodaffinity.ErrReasonAffinityRulesNotMatch:             filters.NoAffinity,
	interpodaffinity.ErrReasonAntiAffinityRulesNotMatch:         filters.NotApart,
	interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch: filters.ThereApart,
	podtopologyspread.ErrReasonNodeLabelNotMatch:                filters.NoSpreadLabel,
	podtopologyspread.ErrReasonConstraintsNotMatch:              filters.TooManyThere,
	nodeports.ErrReason:                                  filters.PortTaken,
	string(volumebinding.ErrReasonNodeConflict):          filters.VolumeAffinity,
	volumezone.ErrReasonConflict:                         filters.VolumeZone,
	volumerestrictions.ErrReasonReadWriteOncePodConflict: filters.ClaimInUse,
}

// everywhere stands for what upstream says before it looks at nodes: a claim that cannot be used.
const everywhere = "no node at all"

// upstream is kube-scheduler's plugins over the shared objects.
type upstream struct {
	t         *testing.T
	ctx       context.Context
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
	features  feature.Features
	binding   fwk.Plugin
}

func newUpstream(t *testing.T, objects []runtime.Object) *upstream {
	t.Helper()
	u := &upstream{t: t, ctx: t.Context(), client: fake.NewClientset(objects...), features: feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)}
	u.informers = informers.NewSharedInformerFactory(u.client, 0)
	u.binding = u.plugin(volumebinding.New, &config.VolumeBindingArgs{BindTimeoutSeconds: 600}, cache.NewEmptySnapshot())
	for _, used := range []interface{ HasSynced() bool }{
		u.informers.Core().V1().Namespaces().Informer(), u.informers.Core().V1().PersistentVolumes().Informer(),
		u.informers.Core().V1().PersistentVolumeClaims().Informer(), u.informers.Storage().V1().StorageClasses().Informer(),
	} {
		_ = used.HasSynced() // asking for an informer has it started
	}
	u.informers.Start(u.ctx.Done())
	u.informers.WaitForCacheSync(u.ctx.Done())
	return u
}

func (u *upstream) plugin(make func(context.Context, runtime.Object, fwk.Handle, feature.Features) (fwk.Plugin, error), args runtime.Object, snapshot *cache.Snapshot) fwk.Plugin {
	u.t.Helper()
	h, err := frameworkruntime.NewFramework(u.ctx, nil, nil, frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithInformerFactory(u.informers), frameworkruntime.WithClientSet(u.client))
	if err != nil {
		u.t.Fatal(err)
	}
	p, err := make(u.ctx, args, h, u.features)
	if err != nil {
		u.t.Fatal(err)
	}
	return p
}

// verdicts returns by node what each plugin says against it.
func (u *upstream) verdicts(p *corev1.Pod, nodes []*corev1.Node, pods []*corev1.Pod) map[string][]string {
	u.t.Helper()
	ctx, stop := context.WithCancel(u.t.Context())
	defer stop() // what the frameworks have started
	u.ctx = ctx
	snapshot := cache.NewSnapshot(pods, nodes)
	all := map[string][]string{}
	for _, pl := range []fwk.Plugin{
		u.plugin(interpodaffinity.New, &config.InterPodAffinityArgs{}, snapshot),
		u.plugin(podtopologyspread.New, &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting}, snapshot),
		u.plugin(nodeports.New, nil, snapshot), u.binding,
		u.plugin(volumezone.New, nil, snapshot), u.plugin(volumerestrictions.New, nil, snapshot),
		u.plugin(noderesources.NewFit, &config.NodeResourcesFitArgs{ScoringStrategy: &config.ScoringStrategy{
			Type: config.LeastAllocated, Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}},
		}}, snapshot),
	} {
		for node, said := range u.ask(pl, p, snapshot) {
			all[node] = append(all[node], said...)
		}
	}
	return all
}

func (u *upstream) ask(pl fwk.Plugin, p *corev1.Pod, snapshot *cache.Snapshot) map[string][]string {
	u.t.Helper()
	infos, err := snapshot.NodeInfos().List()
	if err != nil {
		u.t.Fatal(err)
	}
	said, state := map[string][]string{}, framework.NewCycleState()
	_, status := pl.(fwk.PreFilterPlugin).PreFilter(u.ctx, state, p, infos)
	switch {
	case status.IsSkip():
		return said
	case !status.IsSuccess():
		if status.Code() != fwk.UnschedulableAndUnresolvable {
			u.t.Fatalf("%s: %v", pl.Name(), status)
		}
		for _, n := range infos {
			said[n.Node().Name] = []string{everywhere}
		}
		return said
	}
	for _, n := range infos {
		status := pl.(fwk.FilterPlugin).Filter(u.ctx, state, p, n)
		switch {
		case status.IsSuccess():
			continue
		case !status.IsRejected():
			u.t.Fatalf("%s: %v", pl.Name(), status)
		}
		for _, r := range status.Reasons() {
			if r == string(volumebinding.ErrReasonPVNotExist) || r == string(volumebinding.ErrReasonBindConflict) {
				r = everywhere
			} else if ours, ok := reasons[r]; ok {
				r = ours
			}
			said[n.Node().Name] = append(said[n.Node().Name], r)
		}
	}
	return said
}

func (u *upstream) listers() filters.Listers {
	core := u.informers.Core().V1()
	return filters.Listers{
		Namespaces: core.Namespaces().Lister(), Claims: core.PersistentVolumeClaims().Lister(), Volumes: core.PersistentVolumes().Lister(),
		Classes: u.informers.Storage().V1().StorageClasses().Lister(),
	}
}

// settle waits until the plugin of volumes has been told of all volumes: it learns of them by events.
func (u *upstream) settle(objects []runtime.Object) {
	u.t.Helper()
	volumes := map[string]bool{}
	for _, o := range objects {
		if pv, ok := o.(*corev1.PersistentVolume); ok {
			volumes[pv.Name] = true
		}
	}
	snapshot := cache.NewSnapshot(nil, []*corev1.Node{{}})
	for _, o := range objects {
		pvc, ok := o.(*corev1.PersistentVolumeClaim)
		if !ok || !volumes[pvc.Spec.VolumeName] || pvc.Status.Phase != corev1.ClaimBound || pvc.DeletionTimestamp != nil || len(pvc.Annotations) == 0 {
			continue
		}
		p := &corev1.Pod{}
		p.Namespace = pvc.Namespace
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvc.Name}}}}
		for end := time.Now().Add(time.Minute); slices.Contains(u.ask(u.binding, p, snapshot)[""], everywhere); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				u.t.Fatalf("the plugin does not see volume %s", pvc.Spec.VolumeName)
			}
		}
	}
}

func read(t *testing.T, p *corev1.Pod) *filters.Pod {
	t.Helper()
	q, err := filters.Read(p)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestVerdicts compares, on random clusters, what is said of each node with what kube-scheduler's plugins
// say: of the cluster, and of it without the pods of one node that have been taken out again.
func TestVerdicts(t *testing.T) {
	metrics.Register() // the plugins count
	w := world{rand.New(rand.NewPCG(36, 3))}
	objects := w.objects()
	u := newUpstream(t, objects)
	u.settle(objects)
	seen := map[string]int{}
	for trial := range trials {
		nodes := w.nodes()
		var pods []*corev1.Pod
		for i := range w.IntN(4 * len(nodes)) {
			pods = append(pods, w.pod(fmt.Sprintf("p%d", i), pick(w, nodes...).Name, 20))
		}
		p := w.pod("incoming", "", pick(w, 15, 60))
		w.spread(p)
		byName := map[string]*corev1.Node{}
		for _, n := range nodes {
			byName[n.Name] = n
		}
		check, err := filters.New(read(t, p), byName, u.listers())
		for _, q := range pods {
			if r := read(t, q); check.Minds(r) {
				check.Add(r, byName[q.Spec.NodeName])
			}
		}
		compare(t, trial, check, err, nodes, u.verdicts(p, nodes, pods), seen)
		emptied := pick(w, nodes...).Name
		var left []*corev1.Pod
		for _, q := range pods {
			if q.Spec.NodeName != emptied || w.chance(30) {
				left = append(left, q)
			} else {
				check.Remove(read(t, q), byName[emptied])
			}
		}
		compare(t, trial, check, err, nodes, u.verdicts(p, nodes, left), seen)
		if t.Failed() {
			t.Logf("pod %s", describe(p))
			for _, n := range nodes {
				t.Logf("node %s %v taints %v", n.Name, n.Labels, n.Spec.Taints)
			}
			for _, q := range left {
				t.Logf("pod there %s", describe(q))
			}
			t.FailNow()
		}
	}
	t.Logf("verdicts: %v", seen)
	for _, why := range append(slices.Collect(maps.Values(reasons)), "", everywhere, "Insufficient "+device, "Insufficient ephemeral-storage") {
		if seen[why] < trials/50 {
			t.Errorf("%d verdicts were %q, want %d at least, so that it is compared", seen[why], why, trials/50)
		}
	}
}

// compare wants the same nodes refused, each for a reason that a plugin gives.
func compare(t *testing.T, trial int, check *filters.Check, err error, nodes []*corev1.Node, want map[string][]string, seen map[string]int) {
	t.Helper()
	for _, n := range nodes {
		got, said := everywhere, want[n.Name]
		if err == nil {
			got = check.Refusal(n)
		}
		seen[got]++
		if got == "" && len(said) > 0 || got != "" && !slices.Contains(said, got) {
			t.Errorf("trial %d: node %s: %q (%v), want one of %q", trial, n.Name, got, err, said)
		}
	}
}

func describe(p *corev1.Pod) string {
	text, err := json.Marshal(p)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
