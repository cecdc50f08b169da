package run

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
	"github.com/kubernasium/kubernasium/trainer/minari"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// A file of transitions is a safetensors file. Its tensors have a row for each transition, in the order in
// which they were taken: observations and next_observations (n, observation) of F32, actions (n) of F32,
// rewards (n) of F64, terminations and truncations (n) of U8 and, if actions are masked, action_masks and
// next_action_masks (n, actions) of U8. Its metadata contain a TransitionsMeta under transitionsKey.
const (
	transitionsKey    = "kubernasium_transitions"
	transitionsFormat = 1
)

// TransitionsMeta describes recorded transitions in their file.
type TransitionsMeta struct {
	Format int    `json:"format"`
	Env    string `json:"env"`    // environment of the recording; may be empty
	Policy string `json:"policy"` // policy that acted; may be empty
}

// WriteTransitions writes transitions with actions of Discrete(actions).
func WriteTransitions(path string, t replay.Transitions, meta TransitionsMeta, actions int) error {
	meta.Format = transitionsFormat
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	n := t.Len()
	tensor := func(name string, data any, width ...int) safetensors.Tensor {
		return safetensors.Tensor{Name: name, Shape: append([]int{n}, width...), Data: data}
	}
	tensors := []safetensors.Tensor{
		tensor("observations", t.Obs, len(t.Obs)/n), tensor("next_observations", t.NextObs, len(t.NextObs)/n), tensor("actions", t.Action),
		tensor("rewards", t.Reward), tensor("terminations", bytesOf(t.Terminated)), tensor("truncations", bytesOf(t.Truncated)),
	}
	if t.Mask != nil {
		tensors = append(tensors, tensor("action_masks", bytesOf(t.Mask), actions), tensor("next_action_masks", bytesOf(t.NextMask), actions))
	}
	return models.WriteFileAtomic(path, func(w io.Writer) error {
		return safetensors.Write(w, tensors, map[string]string{transitionsKey: string(text)})
	})
}

// ReadTransitions reads a file of transitions.
func ReadTransitions(path string) (t replay.Transitions, meta TransitionsMeta, err error) {
	r, err := os.Open(path)
	if err != nil {
		return t, meta, err
	}
	defer r.Close()
	sf, err := safetensors.Read(bufio.NewReader(r))
	if err != nil {
		return t, meta, fmt.Errorf("read %s: %w", path, err)
	}
	if err := json.Unmarshal([]byte(sf.Metadata[transitionsKey]), &meta); err != nil {
		return t, meta, fmt.Errorf("%s holds no transitions: its metadata lack %s", path, transitionsKey)
	}
	if meta.Format != transitionsFormat {
		return t, meta, fmt.Errorf("%s has format %d of transitions, want %d", path, meta.Format, transitionsFormat)
	}
	f := models.File{Tensors: sf.Tensors}
	for _, part := range []struct {
		name string
		to   *[]float32
	}{{"observations", &t.Obs}, {"next_observations", &t.NextObs}, {"actions", &t.Action}} {
		if *part.to, err = tensor[float32](f, part.name); err != nil {
			return t, meta, fmt.Errorf("%s: %w", path, err)
		}
	}
	if t.Reward, err = tensor[float64](f, "rewards"); err != nil {
		return t, meta, fmt.Errorf("%s: %w", path, err)
	}
	for name, to := range map[string]*[]bool{"terminations": &t.Terminated, "truncations": &t.Truncated, "action_masks": &t.Mask, "next_action_masks": &t.NextMask} {
		if !slices.ContainsFunc(f.Tensors, func(t safetensors.Tensor) bool { return t.Name == name }) && (to == &t.Mask || to == &t.NextMask) {
			continue
		}
		x, err := tensor[uint8](f, name)
		if err != nil {
			return t, meta, fmt.Errorf("%s: %w", path, err)
		}
		*to = make([]bool, len(x))
		for i, b := range x {
			(*to)[i] = b != 0
		}
	}
	return t, meta, nil
}

func bytesOf(x []bool) []uint8 {
	b := make([]uint8, len(x))
	for i, v := range x {
		if v {
			b[i] = 1
		}
	}
	return b
}

// loadTransitions loads the recorded transitions into the learner.
func (r *Run) loadTransitions() error {
	if r.Transitions == "" && r.Dataset == "" {
		return nil
	}
	t, err := r.recorded()
	if err != nil {
		return err
	}
	from := r.Transitions + r.Dataset // either is set
	l, ok := r.Learner.Learner.(algorithms.RecordedLearner)
	if !ok {
		return fmt.Errorf("recorded transitions with a learner of type %T, want a RecordedLearner", r.Learner.Learner)
	}
	n, err := l.Record(t)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if r.offline {
		r.say("%s: %s learns from %d recorded transitions", from, r.Algo, n)
		return nil
	}
	r.say("%s: the replay buffer starts with %d of %d recorded transitions", from, n, t.Len())
	return nil
}

// recorded reads the recorded transitions.
func (r *Run) recorded() (t replay.Transitions, err error) {
	if r.Transitions != "" {
		t, meta, err := ReadTransitions(r.Transitions)
		if err != nil {
			return t, err
		}
		return t, r.checkRecordedIn(r.Transitions, meta.Env)
	}
	folder, err := minari.Folder(r.Dataset)
	if err != nil {
		return t, err
	}
	m, err := minari.ReadMeta(folder)
	if err == nil {
		err = r.checkRecordedIn(r.Dataset, m.Env)
	}
	if err != nil {
		return t, err
	}
	obs, act := r.v.Spaces()
	episodes, err := minari.Read(folder, obs, act)
	return minari.Transitions(episodes, obs, act), err
}

// checkRecordedIn returns an error for transitions of another environment. If the recording names no
// environment, or one that is unknown here, such as Gymnasium's CartPole-v1, only its spaces must match.
func (r *Run) checkRecordedIn(from, env string) error {
	if _, err := envs.Lookup(env); err != nil {
		return nil
	}
	if play.SimulatedID(env) != play.SimulatedID(r.spec.ID) {
		return fmt.Errorf("%s was recorded in %s, want %s", from, env, r.spec.ID)
	}
	return nil
}

// AppendStep adds a step of one environment: actions at b led to next. If the episode ended, next was reset in
// the mode SameStep.
func AppendStep(t *replay.Transitions, obs []float32, mask []bool, action []float32, next *envs.Batch) {
	t.Obs, t.Mask, t.Action = append(t.Obs, obs...), append(t.Mask, mask...), append(t.Action, action...)
	t.Reward = append(t.Reward, next.Reward[0])
	t.Terminated, t.Truncated = append(t.Terminated, next.Terminated[0]), append(t.Truncated, next.Truncated[0])
	if next.Done(0) {
		t.NextObs, t.NextMask = append(t.NextObs, next.FinalObs...), append(t.NextMask, next.FinalMask...)
		return
	}
	t.NextObs, t.NextMask = append(t.NextObs, next.Obs...), append(t.NextMask, next.Mask...)
}
