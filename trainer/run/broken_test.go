package run_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/models"
	_ "github.com/kubernasium/kubernasium/trainer/clitest" // the environments that break
)

// TestNotANumber stops each algorithm by a NaN in the 41st step of environment 2: after 40 steps
// of all four, and the checkpoint of timestep 128. The message names step, row and checkpoint.
func TestNotANumber(t *testing.T) {
	for _, algo := range algorithms.Names(nil) {
		for what, want := range map[string]string{
			"reward":      `^after 160 timesteps: environment 2: step (40|8) of test/Broken-v0 .*: the reward is NaN; the last checkpoint is (\S+/rl_model_128_steps.safetensors)$`,
			"observation": `^after 164 timesteps: environment 2: step (41|9) of the episode: the observation is NaN at index 1; the last checkpoint is (\S+/rl_model_128_steps.safetensors)$`,
		} {
			t.Run(algo+" "+what, func(t *testing.T) {
				c, params := broken(t, algo, map[string]any{"after": 41, "what": what})
				_, err := train(t, c, params)
				if err == nil {
					t.Fatal("the training ended well")
				}
				m := regexp.MustCompile(want).FindStringSubmatch(err.Error())
				if m == nil {
					t.Fatalf("%v, want %s", err, want)
				}
				if f, err := models.ReadFile(m[len(m)-1]); err != nil || f.Meta.Timesteps != 128 {
					t.Errorf("last checkpoint: %d timesteps, %v", f.Meta.Timesteps, err)
				}
			})
		}
		t.Run(algo+" loss", func(t *testing.T) {
			c, params := broken(t, algo, map[string]any{"after": 41, "what": "huge"})
			_, err := train(t, c, params)
			// The rollout of timesteps 129 to 192, of 16 steps, has the 41st as its step 8.
			want := `: loss \S+ at timestep 192, .*from the return \+Inf of environment 2 at step 8 of (the rollout|its episode) .*; the last checkpoint is \S+/rl_model_128_steps.safetensors$`
			if algo == "dqn" {
				want = `: loss \S+ at timestep \d+, gradient step \d+, first at row \d+ of the batch \(return \+Inf, .*; the last checkpoint is \S+_steps.safetensors$`
			}
			if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
	c, params := broken(t, "ppo", map[string]any{"after": 3})
	if _, err := train(t, c, params); err == nil || !strings.HasSuffix(err.Error(), "the reward is NaN; no checkpoint was saved before") {
		t.Errorf("before the first checkpoint: %v", err)
	}
}
