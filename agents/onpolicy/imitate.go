package onpolicy

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/distribution"
	"github.com/kubernasium/kubernasium/agents/imitation"
	"github.com/kubernasium/kubernasium/agents/rollout"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models/optim"
)

// Constants of imitation: the defaults of Adam and of the entropy's weight in the library
// imitation (Gleave et al., arXiv:2211.11972, imitation/algorithms/bc.py), and the value's
// weight of Stable-Baselines3.
const (
	imitateRate      = 1e-3
	imitateBatch     = 64
	imitateEntropy   = 1e-3
	imitateValueCoef = 0.5
)

// Demonstrated are the steps of a teacher, normalized.
type Demonstrated struct {
	*rollout.Buffer
	Ends []End // where a return goes on beyond what is known
}

// End is a step after which an episode was cut off, by the time limit or the end of the
// demonstration, before the observation Obs.
type End struct {
	Row int
	Obs []float32
}

// Watch lets the teacher play and records its steps. Observations are normalized by the
// statistics of all of them, rewards by those up to their step.
func (a *Actor) Watch(ctx context.Context, d imitation.Demonstration) (*Demonstrated, error) {
	buf := rollout.New(d.StepsEach(), a.Env.NumEnvs, a.Env.Obs.Size(), a.Env.Act.Size(), space.MaskSize(a.Env.Act))
	rec := &Demonstrated{Buffer: buf}
	reward := make([]float64, buf.N)
	act := func(b *envs.Batch, actions []float32) {
		a.Norm.Start(b.Obs)
		from, to := buf.Rows()
		copy(buf.Obs[from*buf.ObsSize:], b.Obs)
		copy(buf.Mask[from*buf.MaskSize:to*buf.MaskSize], b.Mask)
		copy(buf.Action[from*buf.ActSize:], actions)
	}
	err := d.Play(ctx, act, func(next *envs.Batch) error {
		if err := a.CheckRewards(next.Reward); err != nil {
			return fmt.Errorf("imitate: %w", err)
		}
		from, _ := buf.Rows()
		copy(reward, next.Reward)
		a.Norm.Seen(next.Obs, reward, next.Terminated, next.Truncated)
		copy(buf.Reward[from:], reward)
		copy(buf.Terminated[from:], next.Terminated)
		copy(buf.Truncated[from:], next.Truncated)
		buf.Advance()
		for i := range buf.N {
			obs := next.Obs
			switch {
			case next.Terminated[i] || !next.Truncated[i] && !buf.Full():
				continue
			case next.Truncated[i]:
				obs = next.FinalObs
			}
			rec.Ends = append(rec.Ends, End{from + i, slices.Clone(obs[i*buf.ObsSize : (i+1)*buf.ObsSize])})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	a.Norm.Obs(buf.Obs, buf.Obs)
	for _, e := range rec.Ends {
		a.Norm.Obs(e.Obs, e.Obs)
	}
	a.Norm.Restart() // the environments of the training are others
	return rec, nil
}

// Returns sets the returns of all steps, discounted by gamma; value gives the value of each
// End, from which what is not known is bootstrapped.
func (r *Demonstrated) Returns(gamma float64, value []float32) {
	clear(r.Value)
	clear(r.NextValue)
	for i, e := range r.Ends {
		r.NextValue[e.Row] = value[i]
	}
	r.Estimate(gamma, 1)
}

// Imitate implements [imitation.Learner] by behavioural cloning: the policy maximizes the
// likelihood of the teacher's actions under their masks, with a little entropy, and the value
// learns the teacher's returns by least squares. The standard deviations of Box actions stay as
// they are, since a teacher without noise would bring them to 0.
//
// Source: Pomerleau, "Efficient Training of Artificial Neural Networks for Autonomous
// Navigation", Neural Computation 3(1), 1991.
func (a *Actor) Imitate(ctx context.Context, d imitation.Demonstration) (agents.Metrics, error) {
	rec, err := a.Watch(ctx, d)
	if err != nil {
		return nil, err
	}
	adam := optim.NewAdam(a.Params, optim.DefaultAdam())
	rows := make([]int, len(rec.Reward))
	for i := range rows {
		rows[i] = i
	}
	n := min(imitateBatch, len(rows))
	obs, dOut := make([]float32, n*rec.ObsSize), make([]float32, n*a.spec.Outputs())
	value := make([]float32, len(rec.Ends))
	var s Cloned
	for range d.Epochs {
		if err := a.valuesOfEnds(rec.Ends, obs, value); err != nil {
			return nil, err
		}
		rec.Returns(a.gamma, value)
		s = Cloned{}
		a.Rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		for from := 0; from+n <= len(rows); from += n { // what is left over has its turn in another epoch
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			batch := rows[from : from+n]
			for i, r := range batch {
				copy(obs[i*rec.ObsSize:(i+1)*rec.ObsSize], rec.Obs[r*rec.ObsSize:])
			}
			out, err := a.Net.Forward(obs, n)
			if err != nil {
				return nil, fmt.Errorf("%s: imitate: %w", a.Algo, err)
			}
			if err := a.Clone(&s, rec, batch, out, dOut); err != nil {
				return nil, err
			}
			if err := a.Net.Backward(dOut); err != nil {
				return nil, fmt.Errorf("%s: imitate: %w", a.Algo, err)
			}
			adam.Step(imitateRate)
		}
	}
	return s.Metrics(), nil
}

// valuesOfEnds sets the network's values of what followed the ends. obs is memory of rows for
// one pass of the network.
func (a *Actor) valuesOfEnds(ends []End, obs, value []float32) error {
	size := a.Env.Obs.Size()
	n := len(obs) / size
	for from := 0; from < len(ends); from += n {
		some := ends[from:min(from+n, len(ends))]
		for i, e := range some {
			copy(obs[i*size:(i+1)*size], e.Obs)
		}
		out, err := a.Net.Forward(obs, n)
		if err != nil {
			return fmt.Errorf("%s: imitate: %w", a.Algo, err)
		}
		for i := range some {
			value[from+i] = out[i*a.spec.Outputs()+a.Value]
		}
	}
	return nil
}

// Cloned are sums over the steps of an epoch.
type Cloned struct{ negLogP, entropy, value, right, steps float64 }

// Metrics returns the means.
func (s *Cloned) Metrics() agents.Metrics {
	return agents.Metrics{
		"imitation/neglogp": s.negLogP / s.steps, "imitation/entropy": s.entropy / s.steps,
		"imitation/value_loss": s.value / s.steps, "imitation/accuracy": s.right / s.steps,
	}
}

// Clone sets the gradient of the loss of the given rows, of which out holds the outputs, with
// respect to them, and adds what it is made of to s.
func (a *Actor) Clone(s *Cloned, rec *Demonstrated, rows []int, out, dOut []float32) error {
	k, weight := a.spec.Outputs(), 1/float64(len(rows))
	logStd, deviations := a.spec.Head(distribution.LogStdHead)
	mode := make([]float32, rec.ActSize)
	clear(dOut)
	for i, r := range rows {
		row, d := out[i*k:(i+1)*k], dOut[i*k:(i+1)*k]
		action := rec.Action[r*rec.ActSize : (r+1)*rec.ActSize]
		a.Dist.Condition(row, rec.Mask[r*rec.MaskSize:(r+1)*rec.MaskSize])
		s.negLogP -= a.Dist.LogProb(action)
		s.entropy += a.Dist.Entropy()
		if a.Dist.Mode(mode); slices.Equal(mode, action) {
			s.right++
		}
		a.Dist.Grad(d, action, -weight, -weight*imitateEntropy)
		clear(d[logStd : logStd+deviations])
		e := float64(row[a.Value]) - float64(rec.Ret[r])
		s.value += e * e
		d[a.Value] += float32(2 * weight * imitateValueCoef * e)
		s.steps++
	}
	if loss := s.negLogP + s.value; math.IsNaN(loss) || math.IsInf(loss, 0) {
		return fmt.Errorf("%s: imitate: the loss is not finite (%v of actions, %v of values)", a.Algo, s.negLogP, s.value)
	}
	return nil
}
