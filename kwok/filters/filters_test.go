package filters

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// made returns a pod in namespace "shop" with labels key=value.
func made(name string, labels map[string]string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	for _, f := range change {
		f(p)
	}
	return p
}

func read(t *testing.T, p *corev1.Pod) *Pod {
	t.Helper()
	q, err := Read(p)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// four are two nodes in each of two zones: a1, a2 in a, b1, b2 in b.
func four() map[string]*corev1.Node {
	nodes := map[string]*corev1.Node{}
	for _, name := range []string{"a1", "a2", "b1", "b2"} {
		nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: name[:1]}}}
	}
	return nodes
}

func apart(key, app string, more ...func(*corev1.PodAffinityTerm)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		t := corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
		for _, f := range more {
			f(&t)
		}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{t}}}
	}
}

func near(key, app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		}}}
	}
}

func spreads(key string, skew int32, change ...func(*corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := corev1.TopologySpreadConstraint{
			TopologyKey: key, MaxSkew: skew, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}
		for _, f := range change {
			f(&c)
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}

func opens(ip string, number int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: number, HostIP: ip}}
	}
}

// TestRules has the rules one at a time, worked by hand. The oracle compares them with kube-scheduler's.
func TestRules(t *testing.T) {
	web, db := map[string]string{"app": "web"}, map[string]string{"app": "db"}
	three := int32(3)
	for _, tc := range []struct {
		name  string
		pod   *corev1.Pod
		there map[string]*corev1.Pod // by node
		want  [4]string              // of a1, a2, b1, b2
	}{
		{"nothing asked, nothing refused", made("p", web), map[string]*corev1.Pod{"a1": made("q", web)}, [4]string{}},
		{"apart on hosts", made("p", web, apart(corev1.LabelHostname, "web")), map[string]*corev1.Pod{"a1": made("q", web)}, [4]string{NotApart}},
		{"apart in zones", made("p", web, apart(corev1.LabelTopologyZone, "db")), map[string]*corev1.Pod{"a1": made("q", db)}, [4]string{NotApart, NotApart}},
		{"those there want to be apart", made("p", web), map[string]*corev1.Pod{"b2": made("q", db, apart(corev1.LabelTopologyZone, "web"))}, [4]string{2: ThereApart, 3: ThereApart}},
		{"another namespace is none of its", made("p", web), map[string]*corev1.Pod{"b2": made("q", db, apart(corev1.LabelTopologyZone, "web", func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"bank"} }))}, [4]string{}},
		{"namespaces by label", made("p", web), map[string]*corev1.Pod{"b2": made("q", db, apart(corev1.LabelTopologyZone, "web", func(t *corev1.PodAffinityTerm) {
			t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"open": "yes"}}
		}))}, [4]string{2: ThereApart, 3: ThereApart}},
		{"near", made("p", web, near(corev1.LabelTopologyZone, "db")), map[string]*corev1.Pod{"a1": made("q", db)}, [4]string{2: NoAffinity, 3: NoAffinity}},
		{"near to none", made("p", web, near(corev1.LabelTopologyZone, "db")), nil, [4]string{NoAffinity, NoAffinity, NoAffinity, NoAffinity}},
		{"the first of a series", made("p", web, near(corev1.LabelTopologyZone, "web")), nil, [4]string{}},
		{"a label that no node has", made("p", web, near("rack", "web")), nil, [4]string{NoAffinity, NoAffinity, NoAffinity, NoAffinity}},
		{"skew of hosts: 1+1-0 > 1", made("p", web, spreads(corev1.LabelHostname, 1)), map[string]*corev1.Pod{"a2": made("q", web)}, [4]string{1: TooManyThere}},
		{"skew of zones: 1+1-0 > 1", made("p", web, spreads(corev1.LabelTopologyZone, 1)), map[string]*corev1.Pod{"a2": made("q", web)}, [4]string{TooManyThere, TooManyThere}},
		{"skew within 2", made("p", web, spreads(corev1.LabelTopologyZone, 2)), map[string]*corev1.Pod{"a2": made("q", web)}, [4]string{}},
		{"two of three domains: the least is 0", made("p", web, spreads(corev1.LabelTopologyZone, 1, func(c *corev1.TopologySpreadConstraint) { c.MinDomains = &three })),
			map[string]*corev1.Pod{"a2": made("q", web), "b1": made("r", web)}, [4]string{TooManyThere, TooManyThere, TooManyThere, TooManyThere}},
		{"a pod that ends does not count", made("p", web, spreads(corev1.LabelTopologyZone, 1)),
			map[string]*corev1.Pod{"a2": made("q", web, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })}, [4]string{}},
		{"only the same revision counts", made("p", map[string]string{"app": "web", "hash": "2"}, spreads(corev1.LabelTopologyZone, 1, func(c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"hash"} })),
			map[string]*corev1.Pod{"a2": made("q", map[string]string{"app": "web", "hash": "1"}), "b1": made("r", map[string]string{"app": "web", "hash": "2"})}, [4]string{2: TooManyThere, 3: TooManyThere}},
		{"a wish is no demand", made("p", web, spreads(corev1.LabelTopologyZone, 1, func(c *corev1.TopologySpreadConstraint) { c.WhenUnsatisfiable = corev1.ScheduleAnyway })), map[string]*corev1.Pod{"a2": made("q", web)}, [4]string{}},
		{"a port", made("p", web, opens("", 80)), map[string]*corev1.Pod{"a1": made("q", web, opens("10.0.0.1", 80)), "a2": made("r", web, opens("", 81))}, [4]string{PortTaken}},
		{"a port of another address", made("p", web, opens("10.0.0.2", 80)), map[string]*corev1.Pod{"a1": made("q", web, opens("10.0.0.1", 80)), "a2": made("r", web, opens("0.0.0.0", 80))}, [4]string{1: PortTaken}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			nodes := four()
			space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"open": "yes"}}}
			check, err := New(read(t, tc.pod), nodes, listers(t, space))
			if err != nil {
				t.Fatal(err)
			}
			for node, q := range tc.there {
				check.Add(read(t, q), nodes[node])
			}
			for i, node := range []string{"a1", "a2", "b1", "b2"} {
				if got := check.Refusal(nodes[node]); got != tc.want[i] {
					t.Errorf("Refusal(%s) = %q, want %q", node, got, tc.want[i])
				}
			}
		})
	}
}

// listers return listers of objects.
func listers(t *testing.T, objects ...any) Listers {
	t.Helper()
	f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	core, classes := f.Core().V1(), f.Storage().V1().StorageClasses()
	for _, o := range objects {
		store := core.Namespaces().Informer().GetIndexer()
		switch o.(type) {
		case *corev1.PersistentVolumeClaim:
			store = core.PersistentVolumeClaims().Informer().GetIndexer()
		case *corev1.PersistentVolume:
			store = core.PersistentVolumes().Informer().GetIndexer()
		case *storagev1.StorageClass:
			store = classes.Informer().GetIndexer()
		}
		if err := store.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return Listers{Namespaces: core.Namespaces().Lister(), Claims: core.PersistentVolumeClaims().Lister(), Volumes: core.PersistentVolumes().Lister(), Classes: classes.Lister()}
}

// TestVolumes: volumes that bind nothing are accepted, and of claims the error names the one and why.
func TestVolumes(t *testing.T) {
	later, class := storagev1.VolumeBindingWaitForFirstConsumer, "local"
	claimed := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
		}
	}
	pvc := func(name, volume string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume, StorageClassName: &class}}
		if volume != "" {
			c.Annotations = map[string]string{bindCompleted: "yes"}
		}
		for _, f := range change {
			f(c)
		}
		return c
	}
	inB := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}},
	}}}}}
	l := listers(t,
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, VolumeBindingMode: &later},
		pvc("bound", "v1"), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v1"}, Spec: corev1.PersistentVolumeSpec{NodeAffinity: inB}},
		pvc("zoned", "v2"), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v2", Labels: map[string]string{corev1.LabelTopologyZone: "a__c"}}},
		pvc("waits", ""), pvc("gone", "v3"), pvc("lost", "v1", func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }),
		pvc("single", "v4", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v4"}},
	)
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		err  string
		want [4]string
	}{
		{"that bind nothing", made("p", nil, func(p *corev1.Pod) {
			for _, source := range []corev1.VolumeSource{
				{EmptyDir: &corev1.EmptyDirVolumeSource{}}, {ConfigMap: &corev1.ConfigMapVolumeSource{}}, {Secret: &corev1.SecretVolumeSource{}},
				{Projected: &corev1.ProjectedVolumeSource{}}, {DownwardAPI: &corev1.DownwardAPIVolumeSource{}}, {HostPath: &corev1.HostPathVolumeSource{}},
			} {
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: source})
			}
		}), "", [4]string{}},
		{"with node affinity", made("p", nil, claimed("bound")), "", [4]string{VolumeAffinity, VolumeAffinity}},
		{"with zones", made("p", nil, claimed("zoned")), "", [4]string{2: VolumeZone, 3: VolumeZone}},
		{"for one pod", made("p", nil, claimed("single")), "", [4]string{ClaimInUse, ClaimInUse, ClaimInUse, ClaimInUse}},
		{"unbound", made("p", nil, claimed("waits")), `persistentvolumeclaim "waits" is not bound, and storage class "local" has volumeBindingMode WaitForFirstConsumer`, [4]string{}},
		{"not there", made("p", nil, claimed("none")), `persistentvolumeclaim "none" not found`, [4]string{}},
		{"without a volume", made("p", nil, claimed("gone")), `persistentvolume "v3" not found`, [4]string{}},
		{"lost", made("p", nil, claimed("lost")), `persistentvolumeclaim "lost" is bound to persistentvolume "v1", which is not there`, [4]string{}},
		{"ephemeral", made("p", nil, func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
		}), `persistentvolumeclaim "p-scratch" of an ephemeral volume is not made yet`, [4]string{}},
		{"attached once", made("p", nil, func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}}}
		}), `volume "disk" is of kind iscsi`, [4]string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			nodes := four()
			check, err := New(read(t, tc.pod), nodes, l)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("New: %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			check.Add(read(t, made("q", nil, claimed("single"))), nodes["a1"])
			for i, node := range []string{"a1", "a2", "b1", "b2"} {
				if got := check.Refusal(nodes[node]); got != tc.want[i] {
					t.Errorf("Refusal(%s) = %q, want %q", node, got, tc.want[i])
				}
			}
		})
	}
}
