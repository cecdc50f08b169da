package kubeyaml

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/podsched/gpu"
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
	profile := gpu.Profile{Plugins: []gpu.ScorePlugin{{Name: "FGD", Weight: 1000}}, Devices: "FGD"}
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
