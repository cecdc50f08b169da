package run_test

import (
	"bytes"
	"io"
	"maps"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// trained is a training at its end.
type trained struct {
	run.Result
	dir     string
	printed string
}

// complete completes c with the tuned hyperparameters, or with what c.Resume holds, with params in their
// place.
func complete(t *testing.T, c *run.Config, params map[string]any) (spec *envs.Spec, begun []uint64, err error) {
	t.Helper()
	c.Engine = play.EngineFused
	if c.Resume != "" {
		begun, err = c.LoadCheckpoint(run.Changes{Given: func(string) bool { return false }, Params: params})
	} else {
		c.Params, err = run.ReadHyperparams(c.Algo, c.Env, "", params)
	}
	if err != nil {
		return nil, nil, err
	}
	spec, err = play.Lookup(t.Context(), c.Env, c.URLs)
	return spec, begun, err
}

// train trains by c, or resumes c.Resume.
func train(t *testing.T, c run.Config, params map[string]any) (trained, error) {
	t.Helper()
	ctx := t.Context()
	spec, _, err := complete(t, &c, params)
	if err != nil {
		return trained{}, err
	}
	var out bytes.Buffer
	r, err := run.New(ctx, spec, c, &out)
	if err != nil {
		return trained{}, err
	}
	defer r.Close()
	if err := r.Train(ctx); err != nil {
		return trained{dir: r.Folder}, err
	}
	res, err := r.Result(ctx)
	return trained{res, r.Folder, out.String()}, err
}

// mustTrain is train for trainings that must not fail.
func mustTrain(t *testing.T, c run.Config, params map[string]any) trained {
	t.Helper()
	r, err := train(t, c, params)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// trainSeeds trains by c with each of the seeds, or resumes the trainings of c.Resume.
func trainSeeds(t *testing.T, c run.Config, params map[string]any, text string) (*run.SeedsResult, error) {
	t.Helper()
	spec, begun, err := complete(t, &c, params)
	if err != nil {
		return nil, err
	}
	seeds, err := c.SeedsOf(text, begun)
	if err != nil {
		return nil, err
	}
	return run.TrainSeeds(t.Context(), spec, c, seeds, 2, io.Discard)
}

// exact returns a short training of an algorithm with all the state that it can have.
func exact(t *testing.T, algo string) (run.Config, map[string]any) {
	c := run.Config{Algo: algo, Env: "classic/CartPole-v1", Seed: 3, EvalFreq: 128, EvalEpisodes: 2, SaveFreq: 128, LogFolder: t.TempDir(),
		EnvKwargs: map[string]any{}, EvalEnvKwargs: map[string]any{}} // as the command gives them
	params := map[string]any{"n_envs": 2, "n_timesteps": 384, "net_arch": []any{8}}
	add := func(more map[string]any) { maps.Copy(params, more) }
	switch algo {
	case "ppo_lstm":
		add(map[string]any{"lstm_hidden_size": 8})
		fallthrough
	case "ppo":
		add(map[string]any{"n_steps": 16, "batch_size": 32, "n_epochs": 2, "normalize": true})
	case "a2c":
		add(map[string]any{"normalize": true})
	case "reinforce":
		add(map[string]any{"n_episodes": 2, "normalize": true})
	case "dqn": // the buffer of 150 has gone round before the checkpoint of 256
		add(map[string]any{"learning_starts": 32, "train_freq": 2, "buffer_size": 150, "n_steps": 3, "prioritized_replay": true,
			"target_update_interval": 100, "exploration_fraction": 0.9})
	}
	return c, params
}

// gang returns a short training of PPO on episodes of 20 steps in four environments.
func gang(t *testing.T) (run.Config, map[string]any) {
	return run.Config{Algo: "ppo", Env: "k8s/GangWindow-v0", EnvKwargs: map[string]any{"steps": 20}, Seed: 5, EvalFreq: 128, EvalEpisodes: 3, SaveFreq: 128, LogFolder: t.TempDir()},
		map[string]any{"n_envs": 4, "n_steps": 16, "batch_size": 32, "n_epochs": 2, "n_timesteps": 256}
}

// broken returns a training whose checkpoints come every 64 steps: four environments, 16 steps each.
func broken(t *testing.T, algo string, kwargs map[string]any) (run.Config, map[string]any) {
	c := run.Config{Algo: algo, Env: "test/Broken-v0", EnvKwargs: kwargs, EvalEpisodes: 10, SaveFreq: 64, LogFolder: t.TempDir()}
	params := map[string]any{"n_envs": 4, "n_timesteps": 100_000}
	switch algo {
	case "ppo", "ppo_lstm":
		params["n_steps"], params["batch_size"], params["n_epochs"] = 16, 32, 1
	case "a2c":
		params["n_steps"] = 16
	case "dqn":
		params["learning_starts"], params["train_freq"] = 16, 16
	case "reinforce": // an update is an episode of each environment
		params["n_episodes"] = 4
		kwargs["limit"] = 16
	}
	return c, params
}
