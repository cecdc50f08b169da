package kubeyaml

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

func simulate(t *testing.T, cluster, config string) (*gpushare.Report, error) {
	t.Helper()
	c, err := parseConfig([]byte(config))
	if err != nil {
		return nil, err
	}
	o := &Objects{Ignored: map[string]int{}}
	if err := o.parse([]byte(cluster)); err != nil {
		return nil, err
	}
	w, err := o.Workload()
	if err != nil {
		return nil, err
	}
	profiles, err := c.Profiles(w)
	if err != nil {
		return nil, err
	}
	return playAll(w, profiles)
}

// playAll plays a workload to its end.
func playAll(w *Workload, profiles []gpushare.Profile) (*gpushare.Report, error) {
	s, err := gpushare.NewSimulation(w.Nodes, w.Pods, profiles, gpushare.SimulationOptions{})
	if err != nil {
		return nil, err
	}
	for s.Pending() > 0 {
		if err := s.Step(context.Background()); err != nil {
			return nil, err
		}
	}
	return s.Report(), nil
}

func read(t *testing.T, name string) string {
	t.Helper()
	return envstest.Read(t, filepath.Join("testdata", name))
}

// TestSimulate: training comes first by its priority and takes both GPUs of the one node that it
// may run on; the halves share one GPU of the other node, since a second GPU in part would be
// fragment to whole pods.
func TestSimulate(t *testing.T) {
	got, err := simulate(t, read(t, "cluster.yaml"), read(t, "scheduler.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := []gpushare.Placement{
		{Pod: "default/training", Node: "v100-a", Devices: []int{0, 1}},
		{Pod: "default/half-1", Node: "t4-a", Devices: []int{0}},
		{Pod: "default/half-2", Node: "t4-a", Devices: []int{0}},
	}
	if d := cmp.Diff(want, got.Placements); d != "" {
		t.Errorf("placements (-want +got):\n%s", d)
	}
	failed := []gpushare.Failure{{Pod: "default/a100-only", Reasons: map[string]int{"another GPU model": 1, "no GPU": 1, "untolerated taint dedicated": 1}}}
	if d := cmp.Diff(failed, got.Failed); d != "" {
		t.Errorf("failed (-want +got):\n%s", d)
	}
	if got.MilliGPU != 3000 || got.AllMilliGPU != 4000 || got.MilliCPU != 6000 || got.AllMilliCPU != 40000 || got.MemoryMiB != 10<<10 {
		t.Errorf("allocated %d of %d milli-GPU, %d of %d milli-CPU, %d MiB; want 3000 of 4000, 6000 of 40000, %d",
			got.MilliGPU, got.AllMilliGPU, got.MilliCPU, got.AllMilliCPU, got.MemoryMiB, 10<<10)
	}
}

// TestRead reads a folder, lists and several documents, and counts what it leaves out.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b.yaml": read(t, "cluster.yaml"), "notes.txt": "no: yaml: at: all", "a.yml": "# only a comment\n"} {
		envstest.Write(t, filepath.Join(dir, name), text)
	}
	o, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Nodes) != 3 || len(o.Pods) != 5 || o.Ignored["Service"] != 1 {
		t.Errorf("%d nodes, %d pods, ignored %v; want 3, 5 and one Service", len(o.Nodes), len(o.Pods), o.Ignored)
	}
}

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// plugins returns a configuration with these plugins.
func profile(plugins string) string { return header + "profiles: [{plugins: " + plugins + "}]\n" }

// TestConfigErrors: what kube-scheduler would take and then place nothing, or not as said, is an
// error that says what to do.
func TestConfigErrors(t *testing.T) {
	for _, tc := range []struct{ name, config, want string }{
		{"score without its preScore", profile(`{score: {disabled: [{name: "*"}], enabled: [{name: FGD}]}}`), "plugin FGD is enabled at score but not at preScore"},
		{"a default without its preScore", profile(`{preScore: {disabled: [{name: TaintToleration}]}}`), "plugin TaintToleration is enabled at score but not at preScore"},
		{"no plugin for devices", profile(`{score: {disabled: [{name: "*"}], enabled: [{name: BestFit}]}}`), "no plugin of scheduler default-scheduler chooses devices"},
		{"the defaults alone, with GPUs", header, "enable GpuShare or a policy at reserve"},
		{"unknown plugin", profile(`{multiPoint: {enabled: [{name: FDG}]}}`), `unknown plugin "FDG"`},
		{"unknown plugin disabled", profile(`{multiPoint: {disabled: [{name: FDG}]}}`), `unknown plugin "FDG"`},
		{"unknown field", header + "profils: []\n", "profils"},
		{"another kind", "apiVersion: v1\nkind: Pod\n", `kind "Pod"`},
		{"an old version", "apiVersion: kubescheduler.config.k8s.io/v1beta2\nkind: KubeSchedulerConfiguration\n", "v1beta2"},
		{"negative weight", profile(`{multiPoint: {enabled: [{name: FGD, weight: -1}]}}`), "weight -1"},
		{"a filter turned off", profile(`{filter: {disabled: [{name: NodeAffinity}]}}`), "filters cannot be turned off"},
		{"another scheduler", header + "profiles: [{schedulerName: other}]\n", "pods ask for scheduler default-scheduler, and there are profiles for other"},
		{"arguments of another plugin", header + "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {}}]}]\n", "only those of NodeResourcesFit and of Simon's plugins"},
		{"a set as plugin", profile(`{multiPoint: {enabled: [{name: KubeDefault}]}}`), `unknown plugin "KubeDefault"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := simulate(t, read(t, "cluster.yaml"), tc.config)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want an error with %q", err, tc.want)
			}
		})
	}
}

// TestWeights: a default plugin that a configuration enables without a weight has the weight 1, as in kube-scheduler
// (getValidScoreWeights of k8s.io/kubernetes/pkg/scheduler/framework/runtime), not its default one. A weight at score
// takes precedence over one at multiPoint, and other extension points change none.
func TestWeights(t *testing.T) {
	for _, tc := range []struct {
		plugins string
		want    int64 // weight of TaintToleration, whose default is 3
	}{
		{`{}`, 3},
		{`{score: {disabled: [{name: "*"}], enabled: [{name: TaintToleration}]}}`, 1},
		{`{score: {enabled: [{name: TaintToleration}]}}`, 1},
		{`{multiPoint: {enabled: [{name: TaintToleration}]}}`, 1},
		{`{multiPoint: {disabled: [{name: "*"}], enabled: [{name: TaintToleration, weight: 0}]}}`, 1},
		{`{multiPoint: {enabled: [{name: TaintToleration, weight: 5}]}}`, 5},
		{`{multiPoint: {enabled: [{name: TaintToleration, weight: 5}]}, score: {enabled: [{name: TaintToleration, weight: 7}]}}`, 7},
		{`{multiPoint: {enabled: [{name: TaintToleration, weight: 5}]}, score: {enabled: [{name: TaintToleration}]}}`, 1},
		{`{preScore: {disabled: [{name: "*"}], enabled: [{name: TaintToleration}, {name: NodeAffinity}, {name: PodTopologySpread}]}}`, 3},
		{`{filter: {enabled: [{name: TaintToleration, weight: 9}]}}`, 3},
	} {
		c, err := parseConfig([]byte(profile(tc.plugins)))
		if err != nil {
			t.Errorf("%s: %v", tc.plugins, err)
			continue
		}
		got := int64(0)
		for _, p := range c.schedulers["default-scheduler"].profile.Plugins {
			if p.Name == "TaintToleration" {
				got = p.Weight
			}
		}
		if got != tc.want {
			t.Errorf("%s: TaintToleration has the weight %d, want %d", tc.plugins, got, tc.want)
		}
	}
}

const twoNodes = `
kind: NodeList
items:
- metadata: {name: a, labels: {disk: ssd, zone: x}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}, images: [{names: [big:latest], sizeBytes: 1000000000}]}
- metadata: {name: b, labels: {zone: y}}
  spec: {taints: [{key: slow, effect: PreferNoSchedule}]}
  status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10"}}
---
`

// TestPlugins: each plugin alone decides as its formula says. In two nodes, a is half as large.
func TestPlugins(t *testing.T) {
	pod := func(spec string) string {
		return twoNodes + "kind: Pod\nmetadata: {name: p, labels: {app: w}}\nspec:\n  containers: [{name: c, image: big, resources: {requests: {cpu: 1, memory: 1Gi}}}]\n" + spec
	}
	alone := func(name string) string {
		return profile(`{multiPoint: {disabled: [{name: "*"}], enabled: [{name: ` + name + `}]}}`)
	}
	fit := func(strategy string) string {
		return header + `profiles: [{plugins: {multiPoint: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}]}}, pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: ` + strategy + `}}]}]` + "\n"
	}
	bound := "---\nkind: Pod\nmetadata: {name: old, labels: {app: w}}\nspec: {nodeName: a, containers: [{name: c}]}\n"
	spread := "  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: w}}}]\n"
	for _, tc := range []struct{ name, cluster, config, want string }{
		// a: (75+87)/2, b: (87+87)/2.
		{"LeastAllocated", pod(""), alone("NodeResourcesFit"), "b"},
		{"MostAllocated", pod(""), fit(`{type: MostAllocated, resources: [{name: cpu, weight: 1}]}`), "a"},
		{"RequestedToCapacityRatio", pod(""), fit(`{type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 1}], requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}`), "a"},
		// a: |1/4-1/8|/2, b: 0.
		{"BalancedAllocation", pod(""), alone("NodeResourcesBalancedAllocation"), "b"},
		{"TaintToleration", pod(""), alone("TaintToleration"), "a"},
		{"TaintToleration of a pod that tolerates: a tie", pod("  tolerations: [{key: slow, operator: Exists}]\n"), alone("TaintToleration"), "a"},
		{"NodeAffinity", pod("  affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 3, preference: {matchExpressions: [{key: disk, operator: DoesNotExist}]}}]}}\n"), alone("NodeAffinity"), "b"},
		{"required affinity", pod("  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [y]}]}]}}}\n"), alone("TaintToleration"), "b"},
		{"PodTopologySpread", pod(spread) + bound, alone("PodTopologySpread"), "b"},
		{"PodTopologySpread counts other pods not", pod(spread) + strings.ReplaceAll(bound, "app: w", "app: v"), alone("PodTopologySpread"), "a"},
		{"ImageLocality", pod("") + bound, alone("ImageLocality"), "a"},
		{"weights: least allocated beats most", pod(""), profile(`{multiPoint: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit, weight: 3}, {name: MostAllocated, weight: 2}]}}`), "b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := simulate(t, tc.cluster, tc.config)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range r.Placements {
				if p.Pod == "default/p" && p.Node != tc.want {
					t.Errorf("placed on %s, want %s", p.Node, tc.want)
				}
			}
			if len(r.Failed) > 0 {
				t.Errorf("failed: %v", r.Failed)
			}
		})
	}
}

// TestObjectErrors: what cannot be simulated is said, with the object.
func TestObjectErrors(t *testing.T) {
	config := profile(`{multiPoint: {enabled: [{name: GpuShare}]}}`)
	for _, tc := range []struct{ name, cluster, want string }{
		{"no node", "kind: Pod\nmetadata: {name: p}\n", "no Node"},
		{"negative", twoNodes + "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, resources: {requests: {cpu: -1}}}]}\n", "-1000 milli-CPU"},
		{"no resources", "kind: Node\nmetadata: {name: a}\n", "node a: status.allocatable"},
		{"twice", strings.ReplaceAll(twoNodes, "name: b", "name: a"), "node a is there twice"},
		{"typo", twoNodes + "kind: Pod\nmetadata: {name: p}\nspec: {contaners: []}\n", "contaners"},
		{"no name", twoNodes + "kind: Pod\nspec: {}\n", "metadata.name"},
		{"no kind", "metadata: {name: a}\n", "no kind"},
		{"not YAML", "{", "document 1"},
		{"a text", "hello", "not a Kubernetes object"},
		{"fractions of two", twoNodes + "kind: Pod\nmetadata: {name: p, annotations: {alibabacloud.com/gpu-milli: '500', alibabacloud.com/gpu-count: '2'}}\n", "default/p: 500 thousandths of each of 2 GPUs"},
		{"not a number", twoNodes + "kind: Pod\nmetadata: {name: p, annotations: {alibabacloud.com/gpu-milli: half}}\n", `is "half"`},
		{"bound nowhere", twoNodes + "kind: Pod\nmetadata: {name: p}\nspec: {nodeName: c}\n", `bound to node "c"`},
		{"bound beyond", twoNodes + "kind: Pod\nmetadata: {name: p}\nspec: {nodeName: a, containers: [{name: c, resources: {requests: {cpu: 9}}}]}\n", "which has insufficient cpu"},
		{"pod affinity", twoNodes + "kind: Pod\nmetadata: {name: p}\nspec: {affinity: {podAffinity: {}}}\n", "inter-pod affinity"},
		{"DoNotSchedule", twoNodes + "kind: Pod\nmetadata: {name: p}\nspec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}\n", "DoNotSchedule"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := simulate(t, tc.cluster, config)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want an error with %q", err, tc.want)
			}
		})
	}
}

// FuzzRead: whatever a file holds, reading and simulating it gives a report or an error.
func FuzzRead(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("testdata", "cluster.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(twoNodes))
	c, err := parseConfig([]byte(profile(`{multiPoint: {enabled: [{name: FGD}]}}`)))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o := &Objects{Ignored: map[string]int{}}
		if o.parse(data) != nil {
			return
		}
		w, err := o.Workload()
		if err != nil {
			return
		}
		if profiles, err := c.Profiles(w); err == nil {
			_, _ = playAll(w, profiles)
		}
	})
}

// TestRequestsWhileResizing: a container that asks for 1 core has 2 until its resize down is carried out, and counts
// with those, as in kube-scheduler (KEP-1287: the maximum of spec and status).
func TestRequestsWhileResizing(t *testing.T) {
	cpu := func(q string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(q), corev1.ResourceMemory: resource.MustParse("1Gi")}
	}
	p := &corev1.Pod{
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: cpu("1")}}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", AllocatedResources: cpu("2"), Resources: &corev1.ResourceRequirements{Requests: cpu("2")},
		}}},
	}
	if stated, counted := Requests(p); stated.MilliCPU != 2000 || counted.MilliCPU != 2000 {
		t.Errorf("while it is resized: %d and %d millicores, want 2000", stated.MilliCPU, counted.MilliCPU)
	}
	p.Status.ContainerStatuses[0].AllocatedResources, p.Status.ContainerStatuses[0].Resources.Requests = cpu("1"), cpu("1")
	if stated, _ := Requests(p); stated.MilliCPU != 1000 {
		t.Errorf("after that: %d millicores, want 1000", stated.MilliCPU)
	}
}
