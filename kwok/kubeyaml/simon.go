package kubeyaml

import (
	"fmt"
	"slices"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// Names of Alibaba's open-simulator (Simon), and of FGD's simulator, which derives from it.
const (
	simonScheduler = "simon-scheduler" // scheduler of pods that name none
	openGPUShare   = "Open-Gpu-Share"  // filters by GPUs and chooses devices

	v1beta1 = "kubescheduler.config.k8s.io/v1beta1"
)

// simonPlugins maps Simon's score plugins to their names in package gpushare.
var simonPlugins = map[string]string{
	"Simon": "Simon", "RandomScore": "Random", "DotProductScore": "DotProd", "GpuClusteringScore": "GpuClustering",
	"GpuPackingScore": "GpuPacking", "BestFitScore": "BestFit", "FGDScore": "FGD",
}

// simonDisabled lists Simon's other plugins, which its configurations disable.
var simonDisabled = []string{
	"GpuFragScore", "GpuFragBellmanScore", "GpuFragSimScore", "GpuShareFragScore", "GpuShareFragExtendScore",
	"GpuShareFragExtendSimScore", "GpuShareFragLinearNormScore", "GpuShareFragSimScore", "GpuShareFragSimLinearNormScore",
	"GpuShareFragSimTuneScore", "GpuShareFragBestFitScore", "GpuShareFragDotProductScore", "GpuShareFragL2NormRatioScore",
	"GpuShareFragPackingScore", "CosineSimilarityScore", "CosineSimPackingScore", "GpuPackingSimScore", "WorstFitScore",
	"FirstFitScore", "L2NormDiffScore", "L2NormRatioScore", "GandivaScore", "SynergyScore", "FFDProdScore", "FFDSumScore",
	"SelectorSpread", "NodeResourcesMostAllocated", "RequestedToCapacityRatio", // kube-scheduler's; off by default in v1beta1
}

// v1beta1Plugins are the score plugins that kube-scheduler 1.20 enables by default.
var v1beta1Plugins = []gpushare.ScorePlugin{
	{Name: "NodeResourcesBalancedAllocation", Weight: 1},
	{Name: "ImageLocality", Weight: 1},
	{Name: "NodeResourcesLeastAllocated", Weight: 1},
	{Name: "NodeAffinity", Weight: 1},
	{Name: "PodTopologySpread", Weight: 2},
	{Name: "TaintToleration", Weight: 1},
}

// addSimon adds the plugins of Simon's configurations.
func addSimon(all map[string]known) {
	all[openGPUShare] = known{does: filter | reserve}
	for name, as := range simonPlugins {
		all[name] = known{does: preScore | score, as: as}
	}
	for _, name := range simonDisabled {
		all[name] = known{refused: true}
	}
	all["NodeResourcesLeastAllocated"] = known{does: score, as: "NodeResourcesFit",
		strategy: &gpushare.Strategy{Type: "LeastAllocated", CPUWeight: 1, MemoryWeight: 1}}
	for _, name := range []string{"NodePreferAvoidPods", "EBSLimits", "GCEPDLimits", "AzureDiskLimits"} {
		all[name] = known{does: filter, ignored: true}
	}
}

// gpuArgs are the arguments of Simon's plugins.
type gpuArgs struct {
	DimExtMethod string `json:"dimExtMethod"` // mapping of GPUs to dimensions of a vector
	NormMethod   string `json:"normMethod"`   // divisor of amounts
	GpuSelMethod string `json:"gpuSelMethod"` // of Open-Gpu-Share: choice of devices
}

// simonArgs reads the arguments of Simon's plugins. It returns how Open-Gpu-Share chooses devices, as a name of
// [gpushare.Profile].
func simonArgs(args []configv1.PluginConfig) (devices string, err error) {
	devices = "BestFit"
	for _, a := range args {
		_, ok := simonPlugins[a.Name]
		if !ok && a.Name != openGPUShare {
			continue
		}
		var g gpuArgs
		if err := yaml.UnmarshalStrict(a.Args.Raw, &g); err != nil {
			return "", fmt.Errorf("pluginConfig of %s: %w", a.Name, err)
		}
		if err := g.check(a.Name); err != nil {
			return "", fmt.Errorf("pluginConfig of %s: %w", a.Name, err)
		}
		if a.Name == openGPUShare {
			if devices, err = g.devices(); err != nil {
				return "", fmt.Errorf("pluginConfig of %s: %w", a.Name, err)
			}
		}
	}
	return devices, nil
}

// check rejects arguments that the simulation does not support. Only DotProductScore reads dimensions and
// norms.
func (g *gpuArgs) check(plugin string) error {
	for _, one := range []struct {
		key, value string
		known      []string
		simulated  string
	}{
		{"dimExtMethod", g.DimExtMethod, []string{"", "merge", "share", "divide", "extend"}, "merge"},
		{"normMethod", g.NormMethod, []string{"", "node", "pod", "max"}, "max"},
	} {
		if !slices.Contains(one.known, one.value) {
			return fmt.Errorf("%s is %q, want one of %s", one.key, one.value, strings.Join(one.known[1:], ", "))
		}
		if plugin == "DotProductScore" && one.value != "" && one.value != one.simulated {
			return fmt.Errorf("%s is %q, and only %q is simulated", one.key, one.value, one.simulated)
		}
	}
	if g.GpuSelMethod != "" && plugin != openGPUShare {
		return fmt.Errorf("gpuSelMethod is an argument of %s", openGPUShare)
	}
	return nil
}

// devices returns the choice of devices that gpuSelMethod names: best, worst, random, or a score plugin of
// Simon.
func (g *gpuArgs) devices() (string, error) {
	methods := map[string]string{"": "BestFit", "best": "BestFit", "worst": gpushare.WorstFit, "random": "Random"}
	for name, as := range simonPlugins {
		if name != "Simon" {
			methods[name] = as
		}
	}
	d, ok := methods[g.GpuSelMethod]
	if !ok {
		return "", fmt.Errorf("gpuSelMethod is %q, want best, worst, random or a score plugin such as FGDScore", g.GpuSelMethod)
	}
	return d, nil
}
