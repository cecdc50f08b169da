package run

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// RL Zoo's files have keys that are not hyperparameters of an algorithm. This file expands the supported ones
// and rejects the others, unless their value has no effect.

// ExpandZoo converts RL Zoo's keys in values to this trainer's hyperparameters of an algorithm. None stands for the
// default, so that it replaces the value of an earlier layer.
func ExpandZoo(a algorithms.Algorithm, values map[string]any) (map[string]any, error) {
	defaults, err := defaultsOf(a)
	if err != nil {
		return nil, err
	}
	rest, none := map[string]any{}, map[string]any{}
	var refused []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		if v == nil || v == "None" {
			if d, ok := defaults[name]; ok {
				none[name] = d
			}
			continue
		}
		v, keep, err := zooValue(name, v)
		if err != nil {
			refused = append(refused, err)
		} else if keep {
			rest[name] = v
		}
	}
	if err := errors.Join(refused...); err != nil {
		return nil, err
	}
	if rest, err = expandPolicyKwargs(rest); err != nil {
		return nil, err
	}
	rest, err = expandNormalize(rest, defaults)
	return cli.MergeKwargs(none, rest), err
}

// zooKeys lists keys that have no effect with the given value and are then dropped. With any other value,
// reason explains the error.
var zooKeys = map[string]struct {
	nothing any
	why     string
}{
	"callback":              {nil, "there are no callbacks"},
	"env_kwargs":            {nil, "options of the environment are given with --env-kwargs"},
	"env_wrapper":           {nil, "environments have options (--env-kwargs) and no wrappers"},
	"frame_stack":           {1, "observations are not stacked; ppo_lstm remembers"},
	"monitor_kwargs":        {nil, "monitor.csv has no options"},
	"noise_std":             {nil, "there is no noise on actions"},
	"noise_type":            {nil, "there is no noise on actions"},
	"optimize_memory_usage": {false, "the replay buffer holds each observation once in any case"},
	"replay_buffer_class":   {nil, "there is one replay buffer; see prioritized_replay"},
	"rollout_buffer_class":  {nil, "there is one rollout buffer"},
	"rollout_buffer_kwargs": {nil, "the rollout buffer has no options"},
	"sde_sample_freq":       {-1, "there is no state-dependent exploration"},
	"stats_window_size":     {windowSize, "means are over 100 episodes"},
	"use_sde":               {false, "there is no state-dependent exploration"},
	"vec_env_wrapper":       {nil, "environments have options (--env-kwargs) and no wrappers"},
	"verbose":               {0, "output is set by --json"},
}

// multiInput maps Stable-Baselines3's policies for Dict observations to the dense policies, which accept such
// observations here.
var multiInput = map[string]string{"MultiInputPolicy": policies.Mlp, "MultiInputLstmPolicy": policies.MlpLSTM}

// zooValue converts the value of a key to this trainer's form, and reports whether to keep it.
func zooValue(name string, v any) (value any, keep bool, err error) {
	if key, ok := zooKeys[name]; ok {
		if isNothing(v) || fmt.Sprint(v) == fmt.Sprint(key.nothing) {
			return nil, false, nil
		}
		return nil, false, fmt.Errorf("hyperparameter %s is %v, which cannot be honoured: %s", name, v, key.why)
	}
	switch name {
	case "policy":
		if ours, ok := multiInput[fmt.Sprint(v)]; ok {
			return ours, true, nil
		}
	case "train_freq":
		return trainFreq(v)
	case "replay_buffer_kwargs":
		args, err := pythonArgs(name, v)
		if err != nil {
			return nil, false, err
		}
		if timeout, ok := args["handle_timeout_termination"]; len(args) == 0 || len(args) == 1 && ok && timeout == true {
			return nil, false, nil // the trainer always does so
		}
		return nil, false, fmt.Errorf("hyperparameter replay_buffer_kwargs is %v, which cannot be honoured: a truncated episode bootstraps", v)
	}
	return v, true, nil
}

// isNothing reports whether v is false, 0, "", or an empty list or map.
func isNothing(v any) bool {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Slice, reflect.Map:
		return r.Len() == 0
	}
	return r.IsZero()
}

// trainFreq reads a number of steps, or Stable-Baselines3's pair of a number and "step".
func trainFreq(v any) (any, bool, error) {
	pair, ok := v.([]any)
	if text, isText := v.(string); isText {
		pair, ok = []any{1, text}, true
	}
	if !ok {
		return v, true, nil
	}
	if len(pair) != 2 || pair[1] != "step" {
		return nil, false, fmt.Errorf("hyperparameter train_freq is %v, which cannot be honoured: updates come after steps, and not episodes", v)
	}
	return pair[0], true, nil
}

// policyKwargsKey is the key of Stable-Baselines3's policy arguments: a map, or the text of a Python dict such
// as "dict(net_arch=[256, 256], activation_fn=nn.ReLU)".
const policyKwargsKey = "policy_kwargs"

// policyKwargs lists the arguments that are hyperparameters of the same name here.
var policyKwargs = []string{"net_arch", "activation_fn", "log_std_init", "lstm_hidden_size", "n_lstm_layers", "shared_lstm", "enable_critic_lstm"}

// sameArguments lists arguments with only one supported value, which is how this trainer builds networks.
var sameArguments = map[string]any{
	"ortho_init": true, "full_std": true, "use_expln": false, "squash_output": false, "share_features_extractor": true, "normalize_images": true,
}

// expandPolicyKwargs returns values with the arguments of the policy expanded. Other values take precedence
// over them.
func expandPolicyKwargs(values map[string]any) (map[string]any, error) {
	v, ok := values[policyKwargsKey]
	if !ok {
		return values, nil
	}
	args, err := pythonArgs(policyKwargsKey, v)
	if err != nil {
		return nil, err
	}
	flat := map[string]any{}
	var refused []error
	for _, name := range slices.Sorted(maps.Keys(args)) {
		v := args[name]
		only, isSame := sameArguments[name]
		switch {
		case v == nil || isSame && v == only:
		case isSame:
			refused = append(refused, fmt.Errorf("hyperparameter policy_kwargs has %s %v, which cannot be honoured: it is %v", name, v, only))
		case name == "net_arch":
			flat[name], err = netArch(v)
			refused = append(refused, err)
		case name == "activation_fn":
			flat[name], err = activation(v)
			refused = append(refused, err)
		case slices.Contains(policyKwargs, name):
			flat[name] = v
		default:
			refused = append(refused, fmt.Errorf("hyperparameter policy_kwargs has %s %v, which cannot be honoured; there are %s", name, v, strings.Join(policyKwargs, ", ")))
		}
	}
	if err := errors.Join(refused...); err != nil {
		return nil, err
	}
	rest := maps.Clone(values)
	delete(rest, policyKwargsKey)
	return cli.MergeKwargs(flat, rest), nil
}

// netArch returns the sizes of the hidden layers, which policy and value share. It accepts a list, a map with
// "pi" and "vf", or such a map in a list, as in older versions of Stable-Baselines3.
func netArch(v any) (any, error) {
	if list, ok := v.([]any); ok && len(list) == 1 {
		if inner, ok := list[0].(map[string]any); ok {
			v = inner
		}
	}
	towers, ok := v.(map[string]any)
	if !ok {
		return v, nil
	}
	pi, hasPi := towers["pi"]
	vf, hasVf := towers["vf"]
	if !hasPi || !hasVf || len(towers) != 2 || !reflect.DeepEqual(pi, vf) {
		return nil, fmt.Errorf("hyperparameter policy_kwargs has net_arch %v, which cannot be honoured: policy and value have layers of the same widths, such as dict(pi=[64, 64], vf=[64, 64])", v)
	}
	return pi, nil
}

// activation returns the name of a PyTorch activation.
func activation(v any) (any, error) {
	text := fmt.Sprint(v)
	switch text[strings.LastIndex(text, ".")+1:] {
	case "Tanh", models.Tanh:
		return models.Tanh, nil
	case "ReLU", models.ReLU:
		return models.ReLU, nil
	}
	return nil, fmt.Errorf("hyperparameter policy_kwargs has activation_fn %v, which cannot be honoured; there are nn.Tanh and nn.ReLU", v)
}
