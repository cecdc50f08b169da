package vpa

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	env "github.com/kubernasium/kubernasium/envs/vpa"
	"github.com/kubernasium/kubernasium/envs/vpa/rules"
)

// recall gives a new model the history of a container: that of the pods whose last labels match the target's
// selector, and of the live pods. Prometheus changes some names of labels, but knows pods by their own names.
func (r *Recommender) recall(ctx context.Context, a *Autoscaler, t *target, container string, live *env.Live) error {
	if len(r.past) == 0 {
		return nil
	}
	pods, err := r.pods(ctx, a.Namespace, t.selector)
	if err != nil {
		return err
	}
	ids := map[string]string{} // of live pods, by name
	for i := range pods {
		ids[pods[i].Name] = string(pods[i].UID)
	}
	var samples []rules.Sample
	for pod, p := range r.past {
		id, lives := ids[pod.Name]
		used := p.Containers[container]
		if used == nil || pod.Namespace != a.Namespace || !lives && !t.selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		id = cmp.Or(id, pod.Namespace+"/"+pod.Name)
		for _, s := range used.CPU {
			samples = append(samples, rules.Sample{Pod: id, At: s.At, Amount: s.Amount})
		}
		for _, s := range used.Memory {
			samples = append(samples, rules.Sample{Pod: id, At: s.At, Memory: true, Amount: s.Amount})
		}
	}
	slices.SortStableFunc(samples, func(a, b rules.Sample) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Pod, b.Pod)) // the map has no order
	})
	return live.Recall(samples)
}
