package world

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra"
)

func init() {
	placement, subcluster, hierarchical, pricing := DefaultOptions(), DefaultSubclusterOptions(), DefaultHierarchicalOptions(), DefaultPricingOptions()
	metrics := []envs.Metric{{Column: "throughput"}, {Column: "objective"}, {Column: "slo_share"}}
	envs.Register(&envs.Spec{
		ID:  "k8s/LRAPlacement-v0",
		Doc: "Place long-running containers that interfere with one another: choose a node for each.",
		Open: func(opts map[string]any) (envs.Maker, error) {
			o := DefaultOptions()
			if err := envs.DecodeOptions(opts, &o); err != nil {
				return nil, err
			}
			src, err := newSource(o)
			if err != nil {
				return nil, err
			}
			return func() (envs.Task, error) { return newTask(src, src.opts.Nodes, 1), nil }, nil
		},
		Options: &placement, HeldOut: map[string]any{"split": SplitHeldOut}, RenderModes: []string{"ansi", "rgb_array"},
		Info: infoColumns, Metrics: metrics, Baselines: placementBaselines,
	})
	envs.Register(&envs.Spec{
		ID:  "k8s/LRASubcluster-v0",
		Doc: "Place long-running containers on a sub-cluster of 27 nodes by three choices among three.",
		Open: func(opts map[string]any) (envs.Maker, error) {
			o := DefaultSubclusterOptions()
			if err := envs.DecodeOptions(opts, &o); err != nil {
				return nil, err
			}
			levels, err := treeLevels(o.Nodes)
			if err != nil {
				return nil, err
			}
			src, err := newSource(o)
			if err != nil {
				return nil, err
			}
			return func() (envs.Task, error) { return newTask(src, lra.FanOut, levels), nil }, nil
		},
		Options: &subcluster, HeldOut: map[string]any{"split": SplitHeldOut}, RenderModes: []string{"ansi", "rgb_array"},
		Info: infoColumns, Metrics: metrics, Baselines: placementBaselines,
	})
	envs.Register(&envs.Spec{
		ID:  "k8s/LRAHierarchical-v0",
		Doc: "Divide long-running containers among sub-clusters of 27 nodes, which a sub-scheduler fills.",
		Open: func(opts map[string]any) (envs.Maker, error) {
			o := DefaultHierarchicalOptions()
			if err := envs.DecodeOptions(opts, &o); err != nil {
				return nil, err
			}
			src, err := newHierarchy(o)
			if err != nil {
				return nil, err
			}
			return func() (envs.Task, error) { return newHierarchicalTask(src), nil }, nil
		},
		Options: &hierarchical, HeldOut: map[string]any{"split": SplitHeldOut}, RenderModes: []string{"ansi", "rgb_array"},
		Info: infoColumns, Metrics: metrics, Baselines: hierarchicalBaselines,
	})
	envs.Register(&envs.Spec{
		ID:  "k8s/LRAPricing-v0",
		Doc: "Price long-running containers, which then fill node after node for the highest surplus.",
		Open: func(opts map[string]any) (envs.Maker, error) {
			o := DefaultPricingOptions()
			if err := envs.DecodeOptions(opts, &o); err != nil {
				return nil, err
			}
			src, err := newPricer(o)
			if err != nil {
				return nil, err
			}
			return func() (envs.Task, error) { return newPricingTask(src), nil }, nil
		},
		Options: &pricing, HeldOut: map[string]any{"split": SplitHeldOut}, RenderModes: []string{"ansi", "rgb_array"},
		Info: infoColumns, Metrics: metrics, Baselines: pricingBaselines,
	})
}

// treeLevels returns of how many choices among three n is the product.
func treeLevels(n int) (int, error) {
	levels, m := 0, 1
	for m < n {
		m *= lra.FanOut
		levels++
	}
	if m != n || levels == 0 {
		return 0, invalid("%d is no power of 3, which choices among three need", n)
	}
	return levels, nil
}
