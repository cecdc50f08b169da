package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

func selecting(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// terms returns terms of affinity to, or apart from, pods of an app.
func terms(key, app string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{LabelSelector: selecting(app), TopologyKey: key}}
}

// constrained are apps whose pods ask for something about other pods, ports or volumes.
var constrained = map[string]func(*corev1.Pod){
	"hermit": func(p *corev1.Pod) { // keeps noise out of its zone
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(corev1.LabelTopologyZone, "noise")}}
	},
	"noise": func(*corev1.Pod) {},
	"alone": func(p *corev1.Pod) { // one on each node
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(corev1.LabelHostname, "alone")}}
	},
	"fan": func(p *corev1.Pod) { // near the hermit
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(corev1.LabelTopologyZone, "hermit")}}
	},
	"spread": func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selecting("spread")},
		}
	},
	"port": func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	},
	"disk": func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		}
	},
	"device": func(p *corev1.Pod) {
		one := corev1.ResourceList{"example.com/device": resource.MustParse("1")}
		p.Spec.Containers[0].Resources.Limits = one
		p.Spec.Containers[0].Resources.Requests["example.com/device"] = one["example.com/device"]
	},
}

// TestConstraints: our scheduler, whose policy always wants the first node, and the real kube-scheduler
// place the same pods on equal nodes. Both place as many of each app as there can be, and hold every constraint.
func TestConstraints(t *testing.T) {
	plane := kwoktest.Shared(t)
	for _, name := range []string{"ours", corev1.DefaultSchedulerName} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plane)
			scheduler := name
			if name == "ours" {
				c := w.config(byAgent(t, inOrder))
				scheduler = c.Name
				w.run(c)
			}
			zones := w.zones()
			w.volume()
			for _, step := range []struct {
				app  string
				pods int
				left int // that find no place
			}{{"hermit", 1, 0}, {"noise", 5, 0}, {"alone", 7, 1}, {"fan", 3, 0}, {"spread", 7, 0}, {"port", 7, 1}, {"disk", 2, 0}, {"device", 3, 1}} {
				placed := w.placeAll(scheduler, step.app, step.pods, step.left)
				holds(t, step.app, placed, zones, w.nodesOf("hermit"))
			}
		})
	}
}

// zones creates two nodes in each of three zones, and returns the zone of each.
func (w *world) zones() map[string]string {
	zones := map[string]string{}
	for _, name := range []string{"a1", "a2", "b1", "b2", "c1", "c2"} {
		zones[name] = name[:1]
		w.node(name, "32", "64Gi", 50, func(n *corev1.Node) {
			n.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelHostname] = name[:1], n.Name
			if name == "b1" {
				n.Status.Allocatable["example.com/device"] = resource.MustParse("2")
			}
		})
	}
	return zones
}

// volume creates a claim whose volume is in zone b, and waits until the control plane has bound it.
func (w *world) volume() {
	w.t.Helper()
	class := ""
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nfs", Path: "/"}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}},
		}}}},
	}}
	if _, err := w.client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := w.client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{}); err != nil {
			w.t.Error(err)
		}
	})
	claims := w.client.CoreV1().PersistentVolumeClaims(w.namespace)
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "data"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: pv.Name, StorageClassName: &class, AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}
	if _, err := claims.Create(ctx, pvc, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.until("the claim is bound", func() bool {
		got, err := claims.Get(ctx, pvc.Name, metav1.GetOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		return got.Status.Phase == corev1.ClaimBound
	})
}

// placeAll creates pods of an app, waits until all but so many are placed and the rest is told that it does not
// fit, and returns the nodes.
func (w *world) placeAll(scheduler, app string, pods, left int) (nodes []string) {
	w.t.Helper()
	made := map[string]*corev1.Pod{}
	for i := range pods {
		p := w.pod(fmt.Sprintf("%s-%d", app, i), scheduler, "100m", "100Mi", func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }, constrained[app])
		made[p.Name] = w.create(p)
	}
	w.until(fmt.Sprintf("%d of %d pods of %s are placed", pods-left, pods, app), func() bool {
		nodes = w.nodesOf(app)
		return len(nodes) >= pods-left
	})
	for name, p := range made {
		if left > 0 && w.nodeOf(name) == "" {
			w.t.Logf("%s: %s", name, w.event(p, "FailedScheduling"))
		}
	}
	if nodes = w.nodesOf(app); len(nodes) != pods-left {
		w.t.Errorf("%d pods of %s have a node, want %d", len(nodes), app, pods-left)
	}
	return nodes
}

// nodesOf returns the nodes of the pods of an app that have one.
func (w *world) nodesOf(app string) (nodes []string) {
	w.t.Helper()
	list, err := w.client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		if n := list.Items[i].Spec.NodeName; n != "" {
			nodes = append(nodes, strings.TrimPrefix(n, w.namespace+"."))
		}
	}
	return nodes
}

// holds checks what the pods of an app have asked for.
func holds(t *testing.T, app string, nodes []string, zones map[string]string, hermit []string) {
	t.Helper()
	perNode, perZone := map[string]int{}, map[string]int{}
	for _, n := range nodes {
		perNode[n]++
		perZone[zones[n]]++
	}
	good := true
	switch quiet := zones[hermit[0]]; app {
	case "noise":
		good = perZone[quiet] == 0
	case "fan":
		good = perZone[quiet] == len(nodes)
	case "alone", "port":
		good = len(perNode) == len(nodes)
	case "spread":
		counts := slices.Collect(maps.Values(perZone))
		good = len(counts) == 3 && slices.Max(counts)-slices.Min(counts) <= 1
	case "disk":
		good = perZone["b"] == len(nodes)
	case "device":
		good = perNode["b1"] == len(nodes)
	}
	if !good {
		t.Errorf("pods of %s are on %v, with the hermit on %v", app, nodes, hermit)
	}
}

// TestWaitsForOthers: a pod that wants to be near another is placed when that comes, and one whose claim is not
// bound when it is; events say for what they wait.
func TestWaitsForOthers(t *testing.T) {
	w := newWorld(t, kwoktest.Shared(t))
	c := w.config(byAgent(t, inOrder))
	c.FirstRetry, c.LastRetry = patience*2, patience*2 // only what is seen leads to another try
	s, _ := w.run(c)
	w.zones()
	w.known(s)
	app := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{"app": name} }
	}
	fan := w.create(w.pod("fan", c.Name, "100m", "100Mi", app("fan"), constrained["fan"]))
	if note := w.event(fan, "FailedScheduling"); !strings.Contains(note, "0/6 nodes are available: 6 pod affinity not matched.") {
		t.Errorf("event %q", note)
	}
	disk := w.create(w.pod("disk", c.Name, "100m", "100Mi", app("disk"), constrained["disk"]))
	if note := w.event(disk, "FailedScheduling"); !strings.Contains(note, `persistentvolumeclaim "data" not found`) {
		t.Errorf("event %q", note)
	}
	w.create(w.pod("hermit", c.Name, "100m", "100Mi", app("hermit"), constrained["hermit"]))
	if got := w.placed("fan"); got != "a1" {
		t.Errorf("the fan is on %s, want a1, the first node of the hermit's zone", got)
	}
	w.volume()
	if got := w.placed("disk"); got != "b1" {
		t.Errorf("the pod with a volume is on %s, want b1, the first node of its zone", got)
	}
}
