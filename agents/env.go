package agents

import (
	"encoding/json"
	"fmt"

	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// EnvInfo describes the environments to a learner: their id, options, spaces and number.
type EnvInfo struct {
	ID       string         // as registered
	Kwargs   map[string]any // options that it was made with
	Obs, Act space.Space
	NumEnvs  int // rows of a batch
}

// Checkpoint returns the description of a model that algo trained in e.
func (e EnvInfo) Checkpoint(algo string, spec models.Spec) (models.Checkpoint, error) {
	kwargs, err := json.Marshal(e.Kwargs)
	if err != nil {
		return models.Checkpoint{}, fmt.Errorf("agents: options of %s: %w", e.ID, err)
	}
	if e.Kwargs == nil {
		kwargs = nil
	}
	return models.Checkpoint{
		Algo: algo, Env: e.ID, EnvKwargs: kwargs, Spec: spec,
		ObservationSpace: describe(e.Obs), ActionSpace: describe(e.Act),
	}, nil
}

// describe returns the text of a space in a checkpoint.
func describe(s space.Space) string {
	text, err := json.Marshal(s.Describe())
	if err != nil {
		panic(fmt.Sprintf("agents: description of a space: %v", err))
	}
	return string(text)
}
