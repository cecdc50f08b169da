package registry_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
)

var update = flag.Bool("update", false, "add environments that testdata/released.json lacks; entries that it has stay as they are")

// A released environment is an entry of testdata/released.json: an id and what it has promised.
type released struct {
	ID               string  `json:"id"`
	ObservationSpace string  `json:"observation_space"`
	ActionSpace      string  `json:"action_space"`
	Steps            int     `json:"steps"`       // of two environments at random; 0 if equal seeds need not give equal episodes
	Reward           float64 `json:"reward"`      // the sum over these steps
	Observation      float64 `json:"observation"` // the sum over their elements
	Ends             int     `json:"ends"`        // of episodes
}

// TestReleased: each id that was ever listed is still registered, with its spaces and the results of a
// random policy. A change that shows here needs an id of its own (docs/versions.md).
func TestReleased(t *testing.T) {
	const path = "testdata/released.json"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []released
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	var inexact []string // tools/test_dist_arm64.py compares them with docs/versions.md
	for _, want := range list {
		listed[want.ID] = true
		got, ok := play(t, want.ID)
		if got != want {
			inexact = append(inexact, want.ID)
		}
		if ok && !got.equal(want) {
			t.Errorf("%s differs from what it was:\n got %+v\nwant %+v\nregister the new behaviour as the next version, and keep this one", want.ID, got, want)
		}
	}
	t.Logf("sums that differ in the last bits: %q", inexact)
	before := len(list)
	for _, spec := range envs.Specs() {
		switch {
		case listed[spec.ID]:
		case *update:
			if got, ok := play(t, spec.ID); ok {
				list = append(list, got)
			}
		default:
			t.Errorf("%s is not in registry/%s: go test ./registry -run TestReleased -update adds it", spec.ID, path)
		}
	}
	if len(list) > before && !t.Failed() {
		slices.SortFunc(list, func(a, b released) int { return strings.Compare(a.ID, b.ID) })
		text, err := json.MarshalIndent(list, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// play returns what an environment does today. Environments on an API server are not opened.
func play(t *testing.T, id string) (r released, ok bool) {
	t.Helper()
	r.ID = id
	spec, err := envs.Lookup(id)
	if err != nil {
		t.Errorf("an id is gone: %v", err)
		return r, false
	}
	obs, act, err := spacesOf(spec)
	if err != nil {
		t.Errorf("%s: %v", id, err)
		return r, false
	}
	r.ObservationSpace, r.ActionSpace = written(obs), written(act)
	if spec.Nondeterministic {
		return r, true
	}
	v, err := envs.NewVec(spec, 2, envs.VecOptions{Autoreset: envs.SameStep})
	if err != nil {
		t.Errorf("%s: %v", id, err)
		return r, false
	}
	defer v.Close()
	seed := uint64(1)
	b, err := v.Reset(context.Background(), envs.VecResetOptions{Seed: &seed})
	if err != nil {
		t.Errorf("%s: %v", id, err)
		return r, false
	}
	rng, size, masks := rand.New(rand.NewPCG(1, 0)), act.Size(), space.MaskSize(act)
	actions := make([]float32, 2*size)
	for r.Steps = 0; r.Steps < 100; r.Steps++ {
		for i := range 2 {
			act.Sample(rng, b.Mask[i*masks:(i+1)*masks], actions[i*size:(i+1)*size])
		}
		if b, err = v.Step(context.Background(), actions); err != nil {
			t.Errorf("%s: %v", id, err)
			return r, false
		}
		for i := range 2 {
			r.Reward += b.Reward[i]
			if b.Terminated[i] || b.Truncated[i] {
				r.Ends++
			}
		}
		for _, x := range b.Obs {
			r.Observation += float64(x)
		}
	}
	return r, true
}

// written returns a space as testdata/released.json has it: the fields of its type, without names.
func written(s space.Space) string {
	switch s := s.(type) {
	case space.Box:
		return fmt.Sprintf("{%v %v %v}", s.Low, s.High, s.Shape)
	case space.Discrete:
		return fmt.Sprintf("{%d}", s.N)
	case space.Dict:
		var fields []string
		for _, f := range s.Fields {
			fields = append(fields, fmt.Sprintf("{%s %s}", f.Key, written(f.Space)))
		}
		return fmt.Sprintf("{%v}", fields)
	}
	return fmt.Sprintf("%T %v", s, s)
}

// spacesOf returns the spaces with default options.
func spacesOf(spec *envs.Spec) (obs, act space.Space, err error) {
	make, err := spec.Open(nil)
	if err != nil {
		return nil, nil, err
	}
	task, err := make()
	if err != nil {
		return nil, nil, err
	}
	obs, act = task.Spaces()
	return obs, act, nil
}

// equal reports whether both promise the same. Sums may differ by 1e-5 of themselves, because processors differ in the
// last bits of exponentials and fused products.
func (r released) equal(s released) bool {
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-5*(1+math.Abs(a)+math.Abs(b)) }
	return r.ObservationSpace == s.ObservationSpace && r.ActionSpace == s.ActionSpace && r.Steps == s.Steps && r.Ends == s.Ends &&
		near(r.Reward, s.Reward) && near(r.Observation, s.Observation)
}
