package play

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// includes reports whether kwargs includes all options of part.
func includes(kwargs, part map[string]any) bool {
	for name, want := range part {
		if !reflect.DeepEqual(kwargs[name], want) {
			return false
		}
	}
	return true
}

// HeldOut returns an environment's options for evaluation: those of the training, then those of the held-out
// split, then the given ones. Later ones take precedence.
func HeldOut(spec *envs.Spec, trained map[string]any, given ...map[string]any) map[string]any {
	return cli.MergeKwargs(append([]map[string]any{trained, spec.HeldOut}, given...)...)
}

// Validation returns an environment's options for the evaluations during a training. It is HeldOut with the
// validation split instead of the held-out one, if the environment has a validation split.
func Validation(spec *envs.Spec, trained map[string]any, given ...map[string]any) map[string]any {
	return HeldOut(spec, trained, append([]map[string]any{spec.Validation}, given...)...)
}

// EpisodesText states how many episodes were played, and of which instances.
func EpisodesText(spec *envs.Spec, kwargs map[string]any, n int) string {
	if spec.Validation != nil && includes(kwargs, spec.Validation) {
		return fmt.Sprintf("%d validation episodes", n)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.HeldOut)) {
		if got := kwargs[name]; !reflect.DeepEqual(got, spec.HeldOut[name]) {
			return fmt.Sprintf("%d episodes of %s:%v, which are not held out", n, name, got)
		}
	}
	return fmt.Sprintf("%d held-out episodes", n)
}
