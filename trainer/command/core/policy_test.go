package core

import (
	"math"
	"math/rand/v2"
	"testing"

	answers "github.com/kubernasium/kubernasium/agents/trained"
	"github.com/kubernasium/kubernasium/envs/space"
)

// policyLimit bounds how far kubernasium.Policy and the engine differ, relative to the largest number of
// a row if that is above 1. The worst of shipped models is 1.8e-6: both sum 64 float32 products, in another order.
const policyLimit = 3e-6

// policyJob is a model for check_policy.py, with the answers of Go.
type policyJob struct {
	Model  string         `json:"model"`
	Inputs map[string]any `json:"inputs"`

	name            string
	scores, actions [][][]float32 // of a step, of a row; scores only of Discrete actions
}

// newPolicyJob asks the trainer's policy of a model.
func newPolicyJob(t *testing.T, name, path string, rng *rand.Rand) policyJob {
	t.Helper()
	act, err := answers.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	rate, err := act.Clone()
	if err != nil {
		t.Fatal(err)
	}
	obsSpace, actSpace := act.Spaces()
	spec := act.Model().Spec
	parts := []space.Field{{Key: "obs", Space: obsSpace}}
	if d, ok := obsSpace.(space.Dict); ok {
		parts = d.Fields
	}
	arrays, starts := map[string][]any{}, [][]bool{}
	job := policyJob{Model: path, Inputs: map[string]any{}, name: name}
	for step := range onnxSteps {
		seen := spec
		seen.Inputs = obsSpace.Size() // that of the forecaster is wider than its network
		obs, at := randomObs(seen, rng), 0
		for _, p := range parts {
			var rows []any
			for r := range onnxRows {
				rows = append(rows, nested(obs[r*seen.Inputs+at:][:p.Space.Size()], p.Space.Describe().Shape))
			}
			arrays[p.Key] = append(arrays[p.Key], rows)
			at += p.Space.Size()
		}
		start := make([]bool, onnxRows)
		for r := range start {
			if start[r] = step > 0 && (r+step)%3 == 0; start[r] {
				act.BeginRow(r)
				if job.scores != nil {
					rate.BeginRow(r)
				}
			}
		}
		starts = append(starts, start)
		actions := make([]float32, onnxRows*actSpace.Size())
		if err := act.Act(obs, nil, actions); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		job.actions = append(job.actions, split(actions))
		if d, ok := actSpace.(space.Discrete); ok {
			scores := make([]float32, onnxRows*d.N)
			if err := rate.Scores(obs, scores); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			job.scores = append(job.scores, split(scores))
		}
	}
	for key, a := range arrays {
		job.Inputs[key] = a
	}
	if spec.StateSize() > 0 {
		job.Inputs["episode_start"] = starts
	}
	return job
}

// split returns the rows of a step.
func split(x []float32) [][]float32 {
	var rows [][]float32
	for n := len(x) / onnxRows; len(x) > 0; x = x[n:] {
		rows = append(rows, x[:n])
	}
	return rows
}

// checkPolicies compares the jobs with kubernasium.Policy.
func checkPolicies(t *testing.T, jobs []policyJob) {
	t.Helper()
	interpreter := sb3Python(t)
	var got []struct{ Scores, Actions, Single [][][]float32 }
	python(t, interpreter, "check_policy.py", jobs, &got)
	for i, job := range jobs {
		t.Run(job.name, func(t *testing.T) {
			different := false
			for s := range job.actions {
				for r, want := range job.actions[s] {
					if job.scores != nil {
						near(t, "score", s, r, got[i].Scores[s][r], job.scores[s][r])
						different = different || job.scores[s][r][0] != job.scores[0][0][0]
						if !decided(job.scores[s][r]) {
							continue // rounding decides
						}
					}
					different = different || want[0] != job.actions[0][0][0]
					near(t, "action", s, r, got[i].Actions[s][r], want)
					near(t, "action alone", s, r, got[i].Single[s][r], want)
				}
			}
			if !different {
				t.Error("all rows are the same: the test tells nothing")
			}
		})
	}
}

// decided reports whether the best score is above the next by more than two policies may differ.
func decided(scores []float32) bool {
	best, next, scale := math.Inf(-1), math.Inf(-1), 1.0
	for _, x := range scores {
		scale = max(scale, math.Abs(float64(x)))
		if y := float64(x); y > best {
			best, next = y, best
		} else {
			next = max(next, y)
		}
	}
	return best-next > 2*policyLimit*scale
}

func near(t *testing.T, what string, step, row int, got, want []float32) {
	t.Helper()
	scale, worst := 1.0, 0.0
	if len(got) != len(want) {
		t.Fatalf("step %d, row %d: %s of %d numbers, want %d", step, row, what, len(got), len(want))
	}
	for k, x := range want {
		scale, worst = max(scale, math.Abs(float64(x))), max(worst, math.Abs(float64(x)-float64(got[k])))
	}
	if !(worst <= policyLimit*scale) {
		t.Errorf("step %d, row %d: %s differs by %.2g of %.3g: %v, want %v", step, row, what, worst, scale, got, want)
	}
}

// TestPythonPolicyAgreesOnShippedModels: kubernasium.Policy answers as the trainer does, of a batch and one by one.
func TestPythonPolicyAgreesOnShippedModels(t *testing.T) {
	sb3Python(t)
	rng := rand.New(rand.NewPCG(15, 16))
	var jobs []policyJob
	for _, path := range shippedModels(t) {
		jobs = append(jobs, newPolicyJob(t, shippedName(path), path, rng))
	}
	checkPolicies(t, jobs)
}

// TestPythonPolicyAgreesOnEveryKind: networks of every kind, with random parameters.
func TestPythonPolicyAgreesOnEveryKind(t *testing.T) {
	sb3Python(t)
	rng := rand.New(rand.NewPCG(17, 18))
	var jobs []policyJob
	for _, k := range onnxKinds {
		if k.algo == "dqn" && k.norm { // DQN does not normalize
			k.norm = false
		}
		path, _ := k.file(t, rng)
		jobs = append(jobs, newPolicyJob(t, k.name, path, rng))
	}
	checkPolicies(t, jobs)
}
