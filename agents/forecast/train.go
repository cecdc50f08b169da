package forecast

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// teacher is the baseline whose episodes the network is trained on. It never throttles, so usage equals demand.
const teacher = "hindsight_max"

// Training configures the training of a forecaster.
type Training struct {
	Config
	Spec        *envs.Spec
	Kwargs      map[string]any // options of the environment
	Seed        uint64         // of the training episodes
	HeldOutSeed uint64         // of the episodes of Spec.HeldOut
	RNG         *rand.Rand     // draws first weights and the order of batches
}

// Trained is a forecaster with the losses of its training.
type Trained struct {
	File     models.File
	Episodes int
	Losses   []float64 // mean of each complete pass over the episodes
	HeldOut  float64   // loss on a batch of held-out episodes
}

// Run trains on episodes of the teacher, which it plays first. If ctx ends during training, it returns the forecaster
// so far with the error of ctx.
func (t *Training) Run(ctx context.Context) (*Trained, error) {
	v, b, p, err := t.open(ctx, t.Kwargs, t.Seed)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	obs, act := v.Spaces()
	env := agents.EnvInfo{ID: t.Spec.ID, Kwargs: t.Kwargs, Obs: obs, Act: act, NumEnvs: t.Batch}
	if err := CheckEnv(env); err != nil {
		return nil, err
	}
	net, err := fused.New(Spec(t.Hidden), t.RNG)
	if err != nil {
		return nil, err
	}
	defer net.Close()
	trainer, err := NewTrainer(t.Config, net)
	if err != nil {
		return nil, err
	}
	res := &Trained{}
	var batches []Episodes
	steps := 0
	for ; res.Episodes < t.Episodes; res.Episodes += t.Batch {
		var e Episodes
		if e, b, err = Observe(ctx, v, p, b); err != nil {
			return nil, err
		}
		batches = append(batches, e)
		steps += e.Steps * e.N
	}
	err = t.passes(ctx, trainer, batches, res)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	var fileErr error
	if res.File, fileErr = File(t.Config, env, net, t.Seed, steps); fileErr != nil {
		return nil, fileErr
	}
	return res, err
}

// passes makes the passes over the batches, and computes the loss on held-out episodes.
func (t *Training) passes(ctx context.Context, trainer *Trainer, batches []Episodes, res *Trained) error {
	for range t.Epochs {
		sum := 0.0
		for _, i := range t.RNG.Perm(len(batches)) {
			if err := ctx.Err(); err != nil {
				return err
			}
			loss, err := trainer.Step(batches[i])
			if err != nil {
				return err
			}
			sum += loss
		}
		res.Losses = append(res.Losses, sum/float64(len(batches)))
	}
	heldOut := map[string]any{}
	maps.Copy(heldOut, t.Kwargs)
	maps.Copy(heldOut, t.Spec.HeldOut)
	v, b, p, err := t.open(ctx, heldOut, t.HeldOutSeed)
	if err != nil {
		return err
	}
	defer v.Close()
	e, _, err := Observe(ctx, v, p, b)
	if err != nil {
		return err
	}
	res.HeldOut, err = trainer.Loss(e)
	return err
}

// open returns environments at the start of their episodes, and the teacher in them.
func (t *Training) open(ctx context.Context, kwargs map[string]any, seed uint64) (*envs.Vec, *envs.Batch, agents.Policy, error) {
	v, err := envs.NewVec(t.Spec, t.Batch, envs.VecOptions{Options: kwargs, Autoreset: envs.SameStep})
	if err != nil {
		return nil, nil, nil, err
	}
	p, err := baseline.New(v, teacher, t.Seed)
	if err != nil {
		return nil, nil, nil, errors.Join(err, v.Close())
	}
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		return nil, nil, nil, errors.Join(err, v.Close())
	}
	return v, b, p, nil
}
