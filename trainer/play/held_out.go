package play

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// HeldOut returns the options of an environment for evaluation: those of the training, then the
// environment's held-out part, then those given. Later ones win.
func HeldOut(spec *envs.Spec, trained map[string]any, given ...map[string]any) map[string]any {
	return cli.MergeKwargs(append([]map[string]any{trained, spec.HeldOut}, given...)...)
}

// EpisodesText states how many episodes were played, and which instances if they are not the
// held-out ones.
func EpisodesText(spec *envs.Spec, kwargs map[string]any, n int) string {
	for _, name := range slices.Sorted(maps.Keys(spec.HeldOut)) {
		if got := kwargs[name]; !reflect.DeepEqual(got, spec.HeldOut[name]) {
			return fmt.Sprintf("%d episodes of %s:%v, which are not held out", n, name, got)
		}
	}
	return fmt.Sprintf("%d held-out episodes", n)
}
