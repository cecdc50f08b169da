package kubeyaml

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

const (
	simonVersion  = "simon/v1alpha1"
	labelSimonApp = "simon/app-name" // label of the pods of an application
)

// SimonConfig holds those settings of a Config of Simon, which its simulators take as -f, that matter here.
type SimonConfig struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Cluster struct {
			CustomConfig string `json:"customConfig"` // file or folder of the cluster
			KubeConfig   string `json:"kubeConfig"`
		} `json:"cluster"`
		AppList []struct {
			Name  string `json:"name"`
			Path  string `json:"path"`
			Chart bool   `json:"chart"`
		} `json:"appList"`
		NewNode      string `json:"newNode"`
		CustomConfig struct {
			ShufflePod   bool `json:"shufflePod"`
			ExportConfig struct {
				PodSnapshotYamlFilePrefix string `json:"podSnapshotYamlFilePrefix"`
				NodeSnapshotCSVFilePrefix string `json:"nodeSnapshotCSVFilePrefix"`
			} `json:"exportConfig"`
			WorkloadInflationConfig simonRatio `json:"workloadInflationConfig"`
			WorkloadTuningConfig    simonRatio `json:"workloadTuningConfig"`
			NewWorkloadConfig       string     `json:"newWorkloadConfig"`
			DescheduleConfig        struct {
				Ratio  float64 `json:"ratio"`
				Policy string  `json:"policy"`
			} `json:"descheduleConfig"`
			TypicalPodsConfig *simonTypical `json:"typicalPodsConfig"`
		} `json:"customConfig"`
	} `json:"spec"`
	metav1.TypeMeta `json:",inline"`
}

type simonRatio struct {
	Ratio float64 `json:"ratio"`
	Seed  int64   `json:"seed"`
}

type simonTypical struct {
	IsInvolvedCPUPods        bool    `json:"isInvolvedCpuPods"`
	PodPopularityThreshold   int     `json:"podPopularityThreshold"`
	PodIncreaseStep          int     `json:"podIncreaseStep"`
	GpuResWeight             float64 `json:"gpuResWeight"`
	IsConsideredGpuResWeight bool    `json:"isConsideredGpuResWeight"`
}

// publishedTypical is the choice of typical pods in the published table and in this package.
var publishedTypical = simonTypical{IsInvolvedCPUPods: true, PodPopularityThreshold: 95, PodIncreaseStep: 1}

// ReadSimon reads a Config of Simon. It returns nil if the file at path is a folder or holds something else.
func ReadSimon(path string) (*SimonConfig, error) {
	data, err := os.ReadFile(path)
	if failed, ok := errors.AsType[*fs.PathError](err); ok && failed.Op == "read" { // a folder
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var head metav1.TypeMeta
	if yaml.Unmarshal(data, &head) != nil || head.Kind != "Config" || head.APIVersion != simonVersion {
		return nil, nil
	}
	c := &SimonConfig{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// check rejects settings that the simulation does not support.
func (c *SimonConfig) check() error {
	custom := &c.Spec.CustomConfig
	switch {
	case c.Spec.Cluster.KubeConfig != "":
		return errors.New("spec.cluster.kubeConfig is not simulated: name a file of `kubectl get nodes,pods -A -o yaml` as customConfig")
	case c.Spec.Cluster.CustomConfig == "":
		return errors.New("spec.cluster.customConfig, the file or folder of the cluster, is empty")
	case custom.WorkloadInflationConfig.Ratio > 1:
		return errors.New("workloadInflationConfig is not simulated: use workloadTuningConfig")
	case custom.NewWorkloadConfig != "":
		return errors.New("newWorkloadConfig is not simulated")
	}
	for _, a := range c.Spec.AppList {
		if a.Chart {
			return fmt.Errorf("application %s is a chart, which is not read: render it with `helm template`", a.Name)
		}
	}
	return nil
}

// Notes lists the settings that have no effect.
func (c *SimonConfig) Notes() (notes []string) {
	if c.Spec.NewNode != "" {
		notes = append(notes, "newNode has no effect: no node is added")
	}
	if c.Spec.CustomConfig.ExportConfig.NodeSnapshotCSVFilePrefix != "" {
		notes = append(notes, "nodeSnapshotCSVFilePrefix has no effect: snapshots are YAML")
	}
	if t := c.Spec.CustomConfig.TypicalPodsConfig; t != nil && *t != publishedTypical {
		notes = append(notes, "typicalPodsConfig has no effect: typical pods, those without GPU among them, are the most frequent that stand for 95 % of all")
	}
	return notes
}

// Objects reads the cluster and the applications. Pods arrive in Simon's order. First come the pods of the
// cluster and its workloads, sorted by name or shuffled, and tuned to a share of the cluster's GPUs. Then come
// those of each application: first those with tolerations, then those with a node selector or an affinity.
// Nodes are in the order in which Simon breaks ties between them. Paths are relative to the working folder.
//
// Random numbers are those of [gpushare.ReferenceWorkload].
func (c *SimonConfig) Objects() (*Objects, error) {
	o, err := Read(c.Spec.Cluster.CustomConfig)
	if err != nil {
		return nil, err
	}
	if o.Pods, err = o.all(); err != nil {
		return nil, err
	}
	o.Workloads = Workloads{}
	if err := c.arrange(o); err != nil {
		return nil, err
	}
	for _, a := range c.Spec.AppList {
		app, err := Read(a.Path)
		if err != nil {
			return nil, fmt.Errorf("application %s: %w", a.Name, err)
		}
		app.Nodes = o.Nodes
		pods, err := app.all()
		if err != nil {
			return nil, fmt.Errorf("application %s: %w", a.Name, err)
		}
		for i := range pods {
			metav1.SetMetaDataLabel(&pods[i].ObjectMeta, labelSimonApp, a.Name)
		}
		slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return urgency(&b) - urgency(&a) })
		o.Pods = append(o.Pods, pods...)
		for kind, n := range app.Ignored {
			o.Ignored[kind] += n
		}
	}
	return o, nil
}

// all returns the pods, including the workloads' pods.
func (o *Objects) all() ([]corev1.Pod, error) {
	pods, err := o.expand()
	all := make([]corev1.Pod, len(pods))
	for i, p := range pods {
		all[i] = *p
	}
	return all, err
}

// urgency orders the pods of an application: higher ones arrive earlier.
func urgency(p *corev1.Pod) (u int) {
	if p.Spec.Tolerations != nil {
		u += 2
	}
	if p.Spec.NodeSelector != nil || p.Spec.Affinity != nil {
		u++
	}
	return u
}

// arrange orders and tunes the pods of a cluster, and orders its nodes.
func (c *SimonConfig) arrange(o *Objects) error {
	var nodes []gpushare.Node
	nodeOf := map[string]*corev1.Node{}
	for i := range o.Nodes {
		n, err := node(&o.Nodes[i])
		if err != nil {
			return fmt.Errorf("node %s: %w", o.Nodes[i].Name, err)
		}
		nodes, nodeOf[n.Name] = append(nodes, n), &o.Nodes[i]
	}
	var pods []gpushare.Pod
	podOf, copies := map[string]*corev1.Pod{}, map[string]int{}
	for i := range o.Pods {
		p := &o.Pods[i]
		shape, err := shapeOf(p)
		if err != nil {
			return fmt.Errorf("pod %s: %w", podName(p), err)
		}
		pods, podOf[podName(p)] = append(pods, gpushare.Pod{Name: podName(p), Shape: shape}), p
	}
	tuning := c.Spec.CustomConfig.WorkloadTuningConfig
	w := gpushare.OrderedWorkload(nodes, pods, tuning.Seed, tuning.Ratio, c.Spec.CustomConfig.ShufflePod)
	arranged := Objects{Ignored: o.Ignored, types: w.Types}
	for _, n := range w.Nodes {
		arranged.Nodes = append(arranged.Nodes, *nodeOf[n.Name])
	}
	for _, a := range w.Arrivals {
		p := podOf[a.Name].DeepCopy()
		if k := copies[a.Name]; k > 0 {
			p.Name, p.UID, p.Spec.NodeName = fmt.Sprintf("%s-clone-%d", p.Name, k), "", ""
			delete(p.Annotations, openbIndex)
		}
		copies[a.Name]++
		arranged.Pods = append(arranged.Pods, *p)
	}
	*o = arranged
	return nil
}

// shapeOf reads a pod's requests.
func shapeOf(p *corev1.Pod) (s gpushare.Shape, err error) {
	stated, _ := Requests(defaulted(p))
	s.MilliCPU, s.MemoryMiB = stated.MilliCPU, mebibytes(stated.MemoryBytes)
	s.GPUs, s.MilliGPU, s.Models, err = GPUs(p)
	return s, err
}
