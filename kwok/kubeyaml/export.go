package kubeyaml

import (
	"encoding/json"
	"fmt"
)

// export is the JSON that kube-scheduler-simulator exports: objects without kinds, in lists by plural.
//
// Source: kubernetes-sigs/kube-scheduler-simulator, simulator/docs/api.md, "Export".
type export struct {
	Pods            []json.RawMessage `json:"pods"`
	Nodes           []json.RawMessage `json:"nodes"`
	PVs             []json.RawMessage `json:"pvs"`
	PVCs            []json.RawMessage `json:"pvcs"`
	StorageClasses  []json.RawMessage `json:"storageClasses"`
	PriorityClasses []json.RawMessage `json:"priorityClasses"`
	Namespaces      []json.RawMessage `json:"namespaces"`
	SchedulerConfig json.RawMessage   `json:"schedulerConfig"`
}

// addExport adds the objects of an export; ok is false if text is not one.
func (o *Objects) addExport(text []byte) (ok bool, err error) {
	var e export
	if err := json.Unmarshal(text, &e); err != nil || e.Nodes == nil || e.Pods == nil {
		return false, nil // such as pods in a list of another kind
	}
	for _, list := range []struct {
		kind  string
		items []json.RawMessage
	}{
		{"Node", e.Nodes}, {"Pod", e.Pods}, {"PersistentVolume", e.PVs}, {"PersistentVolumeClaim", e.PVCs}, {"StorageClass", e.StorageClasses},
		{"PriorityClass", e.PriorityClasses}, {"Namespace", e.Namespaces}, {"KubeSchedulerConfiguration", []json.RawMessage{e.SchedulerConfig}},
	} {
		for i, item := range list.items {
			if len(item) == 0 || string(item) == "null" {
				continue
			}
			if err := o.add(item, list.kind); err != nil {
				return true, fmt.Errorf("%s %d of the export: %w", list.kind, i, err)
			}
		}
	}
	return true, nil
}
