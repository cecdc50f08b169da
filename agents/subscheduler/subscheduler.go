// Package subscheduler lets trained policies of k8s/LRASubcluster-v0 fill the sub-clusters of
// k8s/LRAHierarchical-v0. With this package imported, the environment's option subscheduler accepts
// files that end in [models.Ext].
package subscheduler

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// The environments that sub-schedulers are trained in: the simulated one, and its twin on an API server.
const (
	ID     = "k8s/LRASubcluster-v0"
	TwinID = "k8s/LRASubclusterKwok-v0"
)

func init() { subcluster.RegisterFile(models.Ext, Read) }

// Read returns the policy in the file as a sub-scheduler. If the model is of another environment, the error names both.
func Read(path string) (subcluster.Scheduler, error) {
	f, err := models.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{ID, TwinID}, f.Meta.Env) {
		return nil, fmt.Errorf("%s is a model of %s, want %s", path, f.Meta.Env, ID)
	}
	s, err := newSubScheduler(path, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func newSubScheduler(path string, f models.File) (subcluster.Scheduler, error) {
	newPolicy, err := algorithms.PolicyReader(f.Meta.Algo)
	if err != nil {
		return nil, err
	}
	net, err := fused.New(f.Meta.Spec, nil)
	if err != nil {
		return nil, err
	}
	if err := f.Params(net.Params()); err != nil {
		return nil, errors.Join(err, net.Close())
	}
	policy, err := newPolicy(net, f)
	if err != nil {
		return nil, errors.Join(err, net.Close())
	}
	b := &envs.Batch{Reward: make([]float64, 1), EpisodeLength: make([]int64, 1)}
	action := make([]float32, 1)
	return &filler{policy: func(obs []float32, mask []bool, first bool) (int, error) {
		if len(obs) != f.Meta.Spec.Inputs {
			return 0, fmt.Errorf("%s is trained on observations of %d numbers, want %d", path, f.Meta.Spec.Inputs, len(obs))
		}
		b.Obs, b.Mask = obs, mask
		b.EpisodeLength[0]++
		if first {
			b.EpisodeLength[0] = 0
		}
		err := policy.Act(b, action)
		return int(action[0]), err
	}}, nil
}
