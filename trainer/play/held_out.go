package play

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// holds reports whether kwargs has all options of part.
func holds(kwargs, part map[string]any) bool {
	for name, want := range part {
		if !reflect.DeepEqual(kwargs[name], want) {
			return false
		}
	}
	return true
}

// HeldOut returns the options of an environment for evaluation: those of the training, then the
// environment's held-out part, then those given. Later ones win.
func HeldOut(spec *envs.Spec, trained map[string]any, given ...map[string]any) map[string]any {
	return cli.MergeKwargs(append([]map[string]any{trained, spec.HeldOut}, given...)...)
}

// Validation returns the options of an environment for the evaluations of a training: as HeldOut, with
// the environment's validation part in place of the held-out one where it has one.
func Validation(spec *envs.Spec, trained map[string]any, given ...map[string]any) map[string]any {
	return HeldOut(spec, trained, append([]map[string]any{spec.Validation}, given...)...)
}

// EpisodesText states how many episodes were played, and of which instances.
func EpisodesText(spec *envs.Spec, kwargs map[string]any, n int) string {
	if spec.Validation != nil && holds(kwargs, spec.Validation) {
		return fmt.Sprintf("%d validation episodes", n)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.HeldOut)) {
		if got := kwargs[name]; !reflect.DeepEqual(got, spec.HeldOut[name]) {
			return fmt.Sprintf("%d episodes of %s:%v, which are not held out", n, name, got)
		}
	}
	return fmt.Sprintf("%d held-out episodes", n)
}
