package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// A Record holds what every learner's checkpoint contains, apart from arrays.
type Record struct {
	Algo      string
	Spec      models.Spec // of the network
	Config    any         // hyperparameters
	State     any         // numbers that the learner keeps; nil if there are none
	Seed      uint64
	Timesteps int // environment steps observed
}

// NewFile returns a checkpoint of a model that was trained in e, with the parameters.
func (e EnvInfo) NewFile(r Record, params []models.Param) (models.File, error) {
	meta, err := e.Checkpoint(r.Algo, r.Spec)
	if err != nil {
		return models.File{}, err
	}
	if meta.Config, err = json.Marshal(r.Config); err != nil {
		return models.File{}, fmt.Errorf("%s: save: %w", r.Algo, err)
	}
	if r.State != nil {
		if meta.State, err = json.Marshal(r.State); err != nil {
			return models.File{}, fmt.Errorf("%s: save: %w", r.Algo, err)
		}
	}
	meta.Seed, meta.Timesteps = r.Seed, int64(r.Timesteps)
	f := models.File{Meta: meta}
	f.PutParams(params)
	return f, nil
}

// ReadFile reads a checkpoint that a learner of algo saved in environments like e with a network of
// spec, and decodes the numbers that it kept into state. The error wraps
// [models.ErrMismatch] for a checkpoint of something else.
func (e EnvInfo) ReadFile(r io.Reader, algo string, spec models.Spec, state any) (models.File, error) {
	f, err := models.Read(r)
	if err != nil {
		return f, err
	}
	want, err := e.Checkpoint(algo, spec)
	if err != nil {
		return f, err
	}
	if err := f.Meta.Match(want); err != nil {
		return f, err
	}
	if err := json.Unmarshal(f.Meta.State, state); err != nil {
		return f, fmt.Errorf("%s: load: %w: state: %w", algo, models.ErrMismatch, err)
	}
	return f, nil
}

// rngTensor holds the state of a learner's random generator.
const rngTensor = models.StatePrefix + "rng"

// PutSource adds the state of a learner's random generator to its checkpoint.
func PutSource(f *models.File, src *pcg.Source) error {
	state, err := src.MarshalBinary()
	if err != nil {
		return fmt.Errorf("%s: save: %w", f.Meta.Algo, err)
	}
	f.Put(safetensors.Tensor{Name: rngTensor, Shape: []int{len(state)}, Data: state})
	return nil
}

// Source returns the random generator that PutSource stored. The error wraps
// [models.ErrMismatch].
func Source(f models.File) (src pcg.Source, err error) {
	t, err := f.Tensor(rngTensor)
	if err != nil {
		return src, err
	}
	state, err := safetensors.As[uint8](t)
	if err == nil {
		err = src.UnmarshalBinary(state)
	}
	if err != nil {
		return src, fmt.Errorf("%s: load: %w: %w", f.Meta.Algo, models.ErrMismatch, err)
	}
	return src, nil
}

// Blank returns copies of params with values of 0. Learners first read a checkpoint into them, so
// that a damaged file leaves the learner unchanged.
func Blank(params []models.Param) []models.Param {
	params = slices.Clone(params)
	for i := range params {
		params[i].Value = make([]float32, len(params[i].Value))
	}
	return params
}
