package kubeyaml

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// TestSimonConfig: the configuration of FGD's simulator places as its policy FGD does.
func TestSimonConfig(t *testing.T) {
	want, err := simulate(t, read(t, "cluster.yaml"), read(t, "scheduler.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := simulate(t, read(t, "cluster.yaml"), read(t, "simon.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("report (-FGD +FGDScore):\n%s", d)
	}
	c, err := parseConfig([]byte(read(t, "simon.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	profile := gpushare.Profile{Plugins: []gpushare.ScorePlugin{{Name: "FGD", Weight: 1000}}, Devices: "FGD"}
	if d := cmp.Diff(profile, c.schedulers["simon-scheduler"].profile); d != "" {
		t.Errorf("profile (-want +got):\n%s", d)
	}
}

// TestSimonPlugins: each plugin of Simon that the published table compares, by its own name, is the policy of package
// gpu that reproduces its curve; without a configuration kube-scheduler 1.20's scores decide, with their weights then.
func TestSimonPlugins(t *testing.T) {
	old := "apiVersion: " + v1beta1 + "\nkind: KubeSchedulerConfiguration\n"
	for name, want := range map[string]string{
		"RandomScore": "Random", "DotProductScore": "DotProd", "GpuClusteringScore": "GpuClustering", "GpuPackingScore": "GpuPacking",
		"BestFitScore": "BestFit", "FGDScore": "FGD", "Simon": "Simon",
	} {
		c, err := parseConfig([]byte(old + `profiles: [{plugins: {score: {disabled: [{name: "*"}], enabled: [{name: ` + name + `}]}}}]`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := c.schedulers["default-scheduler"].profile.Plugins; len(got) != 1 || got[0].Name != want || got[0].Weight != 1 {
			t.Errorf("%s: plugins %+v, want %s", name, got, want)
		}
	}
	c, err := parseConfig([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	weights := map[string]int64{}
	for _, p := range c.schedulers["default-scheduler"].profile.Plugins {
		weights[p.Name] = p.Weight
	}
	want := map[string]int64{"NodeResourcesFit": 1, "NodeResourcesBalancedAllocation": 1, "ImageLocality": 1, "NodeAffinity": 1, "PodTopologySpread": 2, "TaintToleration": 1}
	if d := cmp.Diff(want, weights); d != "" {
		t.Errorf("defaults of v1beta1 (-want +got):\n%s", d)
	}
}

// TestSimonDevices: of the devices that are free by 500, 700 and 1000 thousandths, a pod of 400 takes by gpuSelMethod
// the tightest or the loosest.
func TestSimonDevices(t *testing.T) {
	cluster := "kind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: 8, memory: 16Gi, alibabacloud.com/gpu-count: 3}}\n---\n"
	pod := func(name, milli, index, node string) string {
		return fmt.Sprintf("kind: Pod\nmetadata: {name: %s, annotations: {alibabacloud.com/gpu-count: '1', alibabacloud.com/gpu-milli: '%s', alibabacloud.com/gpu-index: '%s'}}\nspec: {nodeName: %s}\n---\n",
			name, milli, index, node)
	}
	cluster += pod("x", "300", "0", "a") + pod("y", "500", "1", "a") + pod("p", "400", "", "")
	for method, want := range map[string]int{"best": 1, "worst": 2, "": 1, "BestFitScore": 1} {
		config := strings.ReplaceAll(read(t, "simon.yaml"), "gpuSelMethod: FGDScore", "gpuSelMethod: '"+method+"'")
		r, err := simulate(t, cluster, config)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Placements[2]; got.Pod != "default/p" || !cmp.Equal(got.Devices, []int{want}) {
			t.Errorf("gpuSelMethod %q: %+v, want device %d", method, got, want)
		}
	}
}

// TestSimonScore: a pod of 2 cores and 1 GiB takes 2/(8-2) = 33 % of the large node and 2/(4-2) = 100 % of the small
// one, so that Simon prefers the small one, whatever runs there.
func TestSimonScore(t *testing.T) {
	r, err := simulate(t, `
kind: List
items:
  - {kind: Node, metadata: {name: large}, status: {allocatable: {cpu: 8, memory: 16Gi}}}
  - {kind: Node, metadata: {name: small}, status: {allocatable: {cpu: 4, memory: 16Gi}}}
  - {kind: Pod, metadata: {name: p}, spec: {schedulerName: simon-scheduler, containers: [{name: c, resources: {requests: {cpu: 2, memory: 1Gi}}}]}}
`, strings.Replace(read(t, "simon.yaml"), "{name: FGDScore, weight: 1000}", "{name: Simon}", 1))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Placements) != 1 || r.Placements[0].Node != "small" {
		t.Errorf("placements %+v, want the small node", r.Placements)
	}
}

func TestSimonErrors(t *testing.T) {
	simon := read(t, "simon.yaml")
	for _, tc := range []struct{ name, from, to, want string }{
		{"a plugin that is not simulated", "{name: FGDScore, weight: 1000}", "{name: WorstFitScore}", "plugin WorstFitScore of Simon is not simulated"},
		{"another dimension", "{name: FGDScore, args: {dimExtMethod: share", "{name: DotProductScore, args: {dimExtMethod: share", `dimExtMethod is "share", and only "merge" is simulated`},
		{"unknown norm", "normMethod: max}", "normMethod: min}", `normMethod is "min", want one of node, pod, max`},
		{"unknown choice", "gpuSelMethod: FGDScore", "gpuSelMethod: first", `gpuSelMethod is "first", want best, worst, random`},
		{"choice of another plugin", "{dimExtMethod: share, normMethod: max}}", "{gpuSelMethod: best}}", "gpuSelMethod is an argument of Open-Gpu-Share"},
		{"unknown argument", "gpuSelMethod:", "gpuSelMethd:", "gpuSelMethd"},
		{"multiPoint", "filter: {enabled", "multiPoint: {enabled", "multiPoint is not of kubescheduler.config.k8s.io/v1beta1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parseConfig([]byte(strings.Replace(simon, tc.from, tc.to, 1)))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want an error with %q", err, tc.want)
			}
		})
	}
}

// simonFile writes a Config of Simon with this spec.
func simonFile(t *testing.T, spec string) string {
	t.Helper()
	return envstest.TempFile(t, "config.yaml", "apiVersion: simon/v1alpha1\nkind: Config\nspec: {"+spec+"}\n")
}

// TestSimonObjects: without shuffling the cluster's pods come by their names, those of its Deployment among them; then
// the application's, those with tolerations first and then those with a node selector.
func TestSimonObjects(t *testing.T) {
	pod := func(name, spec string) string {
		return fmt.Sprintf("kind: Pod\nmetadata: {name: %s}\nspec: {%s}\n---\n", name, spec)
	}
	cluster := envstest.TempFile(t, "cluster.yaml", threeNodes+pod("z", "")+pod("m", "")+strings.Replace(workload("Deployment", "nn", ""), "namespace: team", "namespace: default", 1))
	app := envstest.TempFile(t, "app.yaml", pod("plain", "")+pod("chosen", "nodeSelector: {pool: blue}")+pod("tolerant", "tolerations: [{operator: Exists}]"))
	c, err := ReadSimon(simonFile(t, fmt.Sprintf("newNode: x, cluster: {customConfig: '%s'}, appList: [{name: shop, path: '%s'}]", cluster, app)))
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.Objects()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"default/m", "default/nn-##########-##### of ReplicaSet nn-########## (ReplicaSet default/nn-##########)", "default/z", "default/tolerant", "default/chosen", "default/plain"}
	if d := cmp.Diff(want, podsOf(t, o)); d != "" {
		t.Errorf("pods (-want +got):\n%s", d)
	}
	if o.Pods[3].Labels[labelSimonApp] != "shop" || len(c.Notes()) != 1 {
		t.Errorf("label %q of the application, notes %q; want shop, and that of newNode", o.Pods[3].Labels[labelSimonApp], c.Notes())
	}
	w, err := o.Workload()
	if err != nil || len(w.Types) != 3 { // of the cluster, without applications
		t.Errorf("%d typical pods, %v; want the cluster's 3", len(w.Types), err)
	}
}

// TestSimonTuning: 4 GPUs and pods of half a GPU, of which there are 12: tuned to 0.5 of the GPUs, 4 are left, and to 3
// of them, 12 copies are added under names of their own.
func TestSimonTuning(t *testing.T) {
	text := "kind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: 64, memory: 64Gi, alibabacloud.com/gpu-count: 4}}\n---\n"
	for p := range 12 {
		text += fmt.Sprintf("kind: Pod\nmetadata: {name: p%02d, annotations: {alibabacloud.com/gpu-count: '1', alibabacloud.com/gpu-milli: '500'}}\nspec: {}\n---\n", p)
	}
	cluster := envstest.TempFile(t, "cluster.yaml", text)
	for ratio, want := range map[string]int{"0.5": 4, "3": 24, "0": 12} {
		c, err := ReadSimon(simonFile(t, fmt.Sprintf("cluster: {customConfig: '%s'}, customConfig: {shufflePod: true, workloadTuningConfig: {ratio: %s, seed: 7}}", cluster, ratio)))
		if err != nil {
			t.Fatal(err)
		}
		o, err := c.Objects()
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, p := range o.Pods {
			names[p.Name] = true
		}
		if len(o.Pods) != want || len(names) != want {
			t.Errorf("ratio %s: %d pods with %d names, want %d", ratio, len(o.Pods), len(names), want)
		}
	}
}

func TestSimonConfigErrors(t *testing.T) {
	for spec, want := range map[string]string{
		"cluster: {kubeConfig: x}": "spec.cluster.kubeConfig is not simulated",
		"cluster: {}":              "spec.cluster.customConfig, the file or folder of the cluster, is empty",
		"cluster: {customConfig: x}, appList: [{name: a, path: p, chart: true}]":            "application a is a chart",
		"cluster: {customConfig: x}, customConfig: {workloadInflationConfig: {ratio: 1.5}}": "workloadInflationConfig is not simulated",
		"cluster: {customConfig: x}, customConfig: {newWorkloadConfig: y}":                  "newWorkloadConfig is not simulated",
		"cluster: {customConfig: x}, customConfig: {shuflePod: true}":                       "shuflePod",
	} {
		if _, err := ReadSimon(simonFile(t, spec)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", spec, err, want)
		}
	}
	for _, path := range []string{t.TempDir(), envstest.TempFile(t, "other.yaml", twoNodes), envstest.TempFile(t, "text.txt", "hello")} {
		if c, err := ReadSimon(path); c != nil || err != nil {
			t.Errorf("%s: %v, %v; want neither a configuration nor an error", path, c, err)
		}
	}
	c, err := ReadSimon(simonFile(t, "cluster: {customConfig: nowhere}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Objects(); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a cluster that is not there: %v", err)
	}
}
