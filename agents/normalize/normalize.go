// Package normalize scales observations and rewards by running statistics, as Stable-Baselines3's VecNormalize does:
// observations to mean 0 and variance 1, rewards by the standard deviation of the discounted return. Unlike
// VecNormalize, the nodes of an observation share their statistics.
//
// Source: Stable-Baselines3 2.9, common/vec_env/vec_normalize.py and
// common/running_mean_std.py; the update of the moments is that of Chan, Golub and LeVeque,
// "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
package normalize

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// Normalization selects what to normalize. Its zero value normalizes nothing.
type Normalization struct {
	NormObs    bool    `json:"norm_obs"`    // observations; default false
	NormReward bool    `json:"norm_reward"` // rewards, in training only; default false
	ClipObs    float64 `json:"clip_obs"`    // bound of a normalized observation; default 10
	ClipReward float64 `json:"clip_reward"` // bound of a normalized reward; default 10
}

// Defaults returns VecNormalize's bounds with nothing normalized.
func Defaults() Normalization { return Normalization{ClipObs: 10, ClipReward: 10} }

// Validate reports the first setting that is out of its range.
func (c Normalization) Validate() error {
	if c.NormObs && !(c.ClipObs > 0) {
		return fmt.Errorf("normalize: clip_obs is %v, want above 0", c.ClipObs)
	}
	if c.NormReward && !(c.ClipReward > 0) {
		return fmt.Errorf("normalize: clip_reward is %v, want above 0", c.ClipReward)
	}
	return nil
}

// epsilon is added to variances before their root is taken.
const epsilon = 1e-8

// moments are running means and variances. Each number of a row belongs to one group of statistics, or to none.
type moments struct {
	of             []int // group of each number of a row; -1: none
	members        []int // numbers of a row in each group
	mean, variance []float64
	count          float64 // of rows

	batchMean, batchVar []float64
}

func newMoments(of []int) *moments {
	size := 0
	if len(of) > 0 {
		size = slices.Max(of) + 1
	}
	f := func() []float64 { return make([]float64, size) }
	m := &moments{of: of, members: make([]int, size), mean: f(), variance: slices.Repeat([]float64{1}, size), count: 1e-4, batchMean: f(), batchVar: f()}
	for _, g := range of {
		if g >= 0 {
			m.members[g]++
		}
	}
	return m
}

// update adds n rows of x to the moments.
func (m *moments) update(n int, x func(row, i int) float64) {
	clear(m.batchMean)
	clear(m.batchVar)
	m.each(n, func(g, r, i int) { m.batchMean[g] += x(r, i) })
	for g := range m.batchMean {
		m.batchMean[g] /= float64(n * m.members[g])
	}
	m.each(n, func(g, r, i int) {
		d := x(r, i) - m.batchMean[g]
		m.batchVar[g] += d * d
	})
	total := m.count + float64(n)
	for i := range m.mean {
		delta := m.batchMean[i] - m.mean[i]
		batchVar := m.batchVar[i] / float64(n*m.members[i])
		sq := m.variance[i]*m.count + batchVar*float64(n) + delta*delta*m.count*float64(n)/total
		m.mean[i] += delta * float64(n) / total
		m.variance[i] = sq / total
	}
	m.count = total
}

// each calls do for each element of n rows, with its group g.
func (m *moments) each(n int, do func(g, row, i int)) {
	for r := range n {
		for i, g := range m.of {
			if g >= 0 {
				do(g, r, i)
			}
		}
	}
}

// layout returns the group of each number of an observation of spec. Each number is a group of its
// own, except that all nodes share one group for each feature: so the statistics fit any number of
// nodes, like the network. Edges, which are indices of nodes, and their mask have none.
func layout(spec models.Spec) []int {
	of := make([]int, spec.Inputs)
	if spec.Nodes == nil {
		for i := range of {
			of[i] = i
		}
		return of
	}
	for i := range of {
		of[i] = -1
	}
	nodes := spec.Nodes
	for i := range nodes.N * nodes.Features {
		of[nodes.Offset+i] = i % nodes.Features
	}
	next := nodes.Features
	for _, g := range spec.Globals() {
		for i := g.Start; i < g.End; i++ {
			of[i] = next
			next++
		}
	}
	return of
}

// A Normalizer holds the statistics of the environments of one learner. It is not safe for
// concurrent use.
type Normalizer struct {
	cfg     Normalization
	gamma   float64
	obs     *moments
	ret     *moments
	returns []float64 // running discounted return of each environment
	started bool
}

// New returns a Normalizer of n environments with observations of spec and the discount gamma.
func New(cfg Normalization, spec models.Spec, n int, gamma float64) *Normalizer {
	if !cfg.NormObs {
		cfg.ClipObs = 0 // not used
	}
	if !cfg.NormReward {
		cfg.ClipReward = 0
	}
	return &Normalizer{cfg: cfg, gamma: gamma, obs: newMoments(layout(spec)), ret: newMoments([]int{0}), returns: make([]float64, n)}
}

// Settings returns the settings in force.
func (z *Normalizer) Settings() Normalization { return z.cfg }

// Start adds the first observations of a training to the statistics. After the first call, or a
// Load, it does nothing.
func (z *Normalizer) Start(obs []float32) {
	if !z.started {
		z.started = true
		z.seen(obs)
	}
}

// Seen adds the observations and rewards of a step to the statistics, and normalizes the rewards in
// place. terminated and truncated have one element for each environment.
func (z *Normalizer) Seen(obs []float32, reward []float64, terminated, truncated []bool) {
	z.seen(obs)
	if !z.cfg.NormReward {
		return
	}
	for i, r := range reward {
		z.returns[i] = z.returns[i]*z.gamma + r
	}
	z.ret.update(len(z.returns), func(r, _ int) float64 { return z.returns[r] })
	scale := math.Sqrt(z.ret.variance[0] + epsilon)
	for i := range reward {
		reward[i] = min(max(reward[i]/scale, -z.cfg.ClipReward), z.cfg.ClipReward)
		if terminated[i] || truncated[i] {
			z.returns[i] = 0
		}
	}
}

func (z *Normalizer) seen(obs []float32) {
	if z.cfg.NormObs {
		size := len(z.obs.of)
		z.obs.update(len(obs)/size, func(r, i int) float64 { return float64(obs[r*size+i]) })
	}
}

// Obs writes the normalized observations of src, any number of rows, to dst. Without NormObs it
// copies them.
func (z *Normalizer) Obs(dst, src []float32) {
	if !z.cfg.NormObs {
		copy(dst, src)
		return
	}
	size := len(z.obs.of)
	for i, x := range src {
		k := z.obs.of[i%size]
		if k < 0 {
			dst[i] = x
			continue
		}
		y := (float64(x) - z.obs.mean[k]) / math.Sqrt(z.obs.variance[k]+epsilon)
		dst[i] = float32(min(max(y, -z.cfg.ClipObs), z.cfg.ClipObs))
	}
}

// Restart sets the running returns to 0, for environments that were reset.
func (z *Normalizer) Restart() { clear(z.returns) }

// Affine returns the scaling that Obs applies to each number: (x − mean)/std, within ±clip. Numbers
// that Obs does not scale, which only observations with edges have, get mean 0 and standard
// deviation 1; Affine clips them as well.
func (z *Normalizer) Affine() (mean, std []float32, clip float32) {
	mean, std = make([]float32, len(z.obs.of)), make([]float32, len(z.obs.of))
	for i, g := range z.obs.of {
		std[i] = 1
		if g >= 0 {
			mean[i], std[i] = float32(z.obs.mean[g]), float32(math.Sqrt(z.obs.variance[g]+epsilon))
		}
	}
	return mean, std, float32(z.cfg.ClipObs)
}

// Active reports whether Obs changes anything.
func (z *Normalizer) Active() bool { return z.cfg.NormObs }

// Names of a Normalizer's parts in a checkpoint.
const (
	metadataKey   = "normalize"
	obsMean       = models.StatePrefix + "obs_rms.mean"
	obsVar        = models.StatePrefix + "obs_rms.var"
	retMean       = models.StatePrefix + "ret_rms.mean"
	retVar        = models.StatePrefix + "ret_rms.var"
	counts        = models.StatePrefix + "rms.count" // of obs_rms and ret_rms
	returnsTensor = models.StatePrefix + "returns"
)

// Save adds the settings and the statistics to a checkpoint, if it normalizes anything.
func (z *Normalizer) Save(f *models.File) error {
	if !z.cfg.NormObs && !z.cfg.NormReward {
		return nil
	}
	text, err := json.Marshal(z.cfg)
	if err != nil {
		return fmt.Errorf("normalize: save: %w", err)
	}
	if f.Meta.Metadata == nil {
		f.Meta.Metadata = map[string]string{}
	}
	f.Meta.Metadata[metadataKey] = string(text)
	put := func(name string, x ...float64) {
		f.Put(safetensors.Tensor{Name: name, Shape: []int{len(x)}, Data: x})
	}
	put(obsMean, z.obs.mean...)
	put(obsVar, z.obs.variance...)
	put(retMean, z.ret.mean...)
	put(retVar, z.ret.variance...)
	put(counts, z.obs.count, z.ret.count)
	put(returnsTensor, z.returns...)
	return nil
}

// Load returns the Normalizer that Save stored, with the settings stored beside it, for n
// environments with observations of spec and the discount gamma. If f holds none, the Normalizer
// changes nothing. If n is not the number of environments of the checkpoint, running returns begin at
// 0. The error wraps [models.ErrMismatch].
func Load(f models.File, spec models.Spec, n int, gamma float64) (*Normalizer, error) {
	text, ok := f.Meta.Metadata[metadataKey]
	if !ok {
		return New(Normalization{}, spec, n, gamma), nil
	}
	var cfg Normalization
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return nil, fmt.Errorf("normalize: load: %w: settings: %w", models.ErrMismatch, err)
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("normalize: load: %w: %w", models.ErrMismatch, err)
	}
	z := New(cfg, spec, n, gamma)
	z.started = true
	both := make([]float64, 2)
	for _, part := range []struct {
		name string
		to   []float64
	}{{obsMean, z.obs.mean}, {obsVar, z.obs.variance}, {retMean, z.ret.mean}, {retVar, z.ret.variance}, {counts, both}} {
		x, err := numbers(f, part.name)
		if err != nil {
			return nil, err
		}
		if len(x) != len(part.to) {
			return nil, fmt.Errorf("normalize: load: %w: %s has %d numbers, want %d", models.ErrMismatch, part.name, len(x), len(part.to))
		}
		least := 0.0 // of counts
		switch part.name {
		case obsMean, retMean:
			least = math.Inf(-1)
		case obsVar, retVar:
			least = -epsilon / 2 // the variance of equal numbers, of a deviation to which epsilon was added, may round to this
		}
		if low := slices.IndexFunc(x, func(v float64) bool { return v < least }); low >= 0 {
			return nil, fmt.Errorf("normalize: load: %w: %s holds %v, want 0 or more", models.ErrMismatch, part.name, x[low])
		}
		copy(part.to, x)
	}
	z.obs.count, z.ret.count = both[0], both[1]
	returns, err := numbers(f, returnsTensor)
	if err != nil {
		return nil, err
	}
	if len(returns) == n {
		copy(z.returns, returns)
	}
	return z, nil
}

func numbers(f models.File, name string) ([]float64, error) {
	t, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	x, err := safetensors.As[float64](t)
	if err != nil {
		return nil, fmt.Errorf("normalize: load: %w: %w", models.ErrMismatch, err)
	}
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("normalize: load: %w: %s holds %v", models.ErrMismatch, name, v)
		}
	}
	return x, nil
}
