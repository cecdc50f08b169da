package run

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// TestParametersThatAreNotNumbers: a model with a NaN replaces no file.
func TestParametersThatAreNotNumbers(t *testing.T) {
	f := models.File{Tensors: []safetensors.Tensor{
		{Name: "state.x", Shape: []int{1}, Data: []float32{float32(math.NaN())}}, // a state may
		{Name: "value_net.bias", Shape: []int{2}, Data: []float32{1, float32(math.Inf(1))}},
	}}
	if err := checkParams(f, 7); err == nil || err.Error() != "parameter value_net.bias is +Inf at index 1 after 7 timesteps: not saved" {
		t.Errorf("checkParams = %v", err)
	}
	f.Tensors = f.Tensors[:1]
	if err := checkParams(f, 7); err != nil {
		t.Errorf("checkParams = %v, want nil", err)
	}
}

// TestSaveRefusesNaN: a training whose network has a NaN writes no model.
func TestSaveRefusesNaN(t *testing.T) {
	for _, algo := range algorithms.Names(nil) {
		t.Run(algo, func(t *testing.T) {
			spec, err := envs.Lookup("classic/CartPole-v1")
			if err != nil {
				t.Fatal(err)
			}
			h, err := ReadHyperparams(algo, spec.ID, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := New(context.Background(), spec, Config{Algo: algo, Env: spec.ID, Engine: play.EngineFused, Params: h, EvalEpisodes: 1, LogFolder: t.TempDir(), Quiet: true}, os.Stderr)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			r.Learner.Nets[0].Params()[0].Value[3] = float32(math.NaN())
			for what, save := range map[string]func() error{"last": r.finish, "best": r.saveBest} {
				if err := save(); err == nil || !strings.Contains(err.Error(), "has NaN at ") {
					t.Errorf("the %s model: error %v, want that of the NaN", what, err)
				}
			}
			for _, path := range []string{r.LastModel(), r.BestModel()} {
				if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is there: %v", path, err)
				}
			}
		})
	}
}
