package play

import (
	"encoding/json"
	"fmt"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/trained"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// Model is a trained policy from a file.
type Model struct {
	Path string
	Meta models.Checkpoint
	agents.Policy
	Net Network
}

// ReadModel reads the policy at path.
func ReadModel(path string) (*Model, error) {
	return loadModel(path, func(*models.File) error { return nil })
}

// ReadModelFor reads the policy at path for the environments of v. A policy over nodes may have been trained
// with another number of nodes.
func ReadModelFor(path string, v envs.VecEnv) (*Model, error) {
	obs, act := v.Spaces()
	return readModelOf(path, v.Spec().ID, obs, act)
}

// readModelOf reads the policy at path for an environment with these spaces, or for its twin.
func readModelOf(path, env string, obs, act space.Space) (*Model, error) {
	return loadModel(path, func(f *models.File) error {
		if SimulatedID(f.Meta.Env) == SimulatedID(env) {
			env = f.Meta.Env
		}
		return trained.Adapt(f, env, obs, act)
	})
}

// loadModel reads the policy at path. adapt may check and change the file's description.
func loadModel(path string, adapt func(f *models.File) error) (*Model, error) {
	f, err := models.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := &Model{Path: path}
	if err := m.load(f, adapt); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func (m *Model) load(f models.File, adapt func(f *models.File) error) error {
	if err := adapt(&f); err != nil {
		return err
	}
	policy, net, err := trained.New(f)
	if err != nil {
		return err
	}
	m.Meta, m.Policy, m.Net = f.Meta, policy, net
	return nil
}

// EnvKwargs returns the environment's options in the model's training.
func (m *Model) EnvKwargs() (map[string]any, error) {
	if len(m.Meta.EnvKwargs) == 0 {
		return nil, nil
	}
	var kwargs map[string]any
	if err := json.Unmarshal(m.Meta.EnvKwargs, &kwargs); err != nil {
		return nil, fmt.Errorf("%s: options of the environment: %w", m.Path, err)
	}
	return kwargs, nil
}
