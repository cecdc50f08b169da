package run

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// normalizeKey is RL Zoo's hyperparameter for Stable-Baselines3's VecNormalize: true or false, or its arguments
// as a map or as the text of a Python dict, such as "{'norm_obs': True, 'norm_reward': False}" or
// "dict(norm_obs=True, norm_reward=False)".
const normalizeKey = "normalize"

// vecNormalize lists the supported arguments of VecNormalize; the discount is the algorithm's.
var vecNormalize = []string{"norm_obs", "norm_reward", "clip_obs", "clip_reward"}

// checkNormalize rejects normalize for an algorithm without VecNormalize's hyperparameters.
func checkNormalize(a algorithms.Algorithm, values map[string]any) error {
	normalizes := func(a algorithms.Algorithm) bool { return slices.Contains(FieldNames(a.Defaults()), vecNormalize[0]) }
	v, ok := values[normalizeKey]
	if !ok || v == false || normalizes(a) {
		return nil
	}
	return fmt.Errorf("hyperparameter normalize is %v, and %s does not normalize; %s do", v, a.Name, strings.Join(algorithms.Names(normalizes), ", "))
}

// expandNormalize returns values with RL Zoo's normalize expanded. Other values take precedence over it. False turns off
// what an earlier layer turns on; an algorithm whose defaults lack norm_obs never normalizes.
func expandNormalize(values, defaults map[string]any) (map[string]any, error) {
	v, ok := values[normalizeKey]
	if !ok {
		return values, nil
	}
	rest := maps.Clone(values)
	delete(rest, normalizeKey)
	on, isBool := v.(bool)
	if _, can := defaults[vecNormalize[0]]; isBool && !on && !can {
		return rest, nil
	}
	args := map[string]any{"norm_obs": on || !isBool, "norm_reward": on || !isBool}
	if !isBool {
		given, err := pythonArgs(normalizeKey, v)
		if err != nil {
			return nil, err
		}
		for name := range given {
			if !slices.Contains(vecNormalize, name) {
				return nil, fmt.Errorf("hyperparameter normalize: unknown argument %q; there are %s", name, strings.Join(vecNormalize, ", "))
			}
		}
		args = cli.MergeKwargs(args, given)
	}
	return cli.MergeKwargs(args, rest), nil
}
