package core

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/agents/forecast"
	"github.com/kubernasium/kubernasium/agents/normalize"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/onnx"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// onnxLimit bounds how far onnxruntime and the engine differ, relative to the largest output of
// a row if that is above 1.
const onnxLimit = 1e-5

// pretrainedFolder holds the models that the repository ships.
const pretrainedFolder = "../../../models/pretrained"

// shippedModels returns the files of all models of the repository.
func shippedModels(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(pretrainedFolder, "*", "*.safetensors"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("models of %s: %q, %v", pretrainedFolder, paths, err)
	}
	return paths
}

// shippedName returns the name of a shipped model's file with its folder.
func shippedName(path string) string {
	return filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))
}

// TestExportsEveryShippedModel: none is refused, and each names its outputs. (What they compute,
// TestONNXRuntimeAgreesOnShippedModels compares.)
func TestExportsEveryShippedModel(t *testing.T) {
	folder := t.TempDir()
	for i, path := range shippedModels(t) {
		res, err := exportONNX(path, filepath.Join(folder, fmt.Sprintf("%d.onnx", i)))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		want := []string{"logits", "value"}
		switch name := filepath.Base(path); {
		case name == "dqn.safetensors":
			want = []string{"q_values"}
		case name == "lstm_forecaster.safetensors":
			want = []string{"quantiles"}
		case strings.Contains(path, "VerticalPodAutoscaler-v"), strings.Contains(path, "LRAPricing"), strings.Contains(path, "GangForecast"):
			want[0] = "actions" // of a box
		}
		if slices.Contains(res.Inputs, onnx.State) {
			want = append(want, onnx.NextState)
		}
		if diff := cmp.Diff(want, res.Outputs); diff != "" {
			t.Errorf("%s: outputs (-want +got):\n%s", path, diff)
		}
	}
}

// onnxJob is a job of check_onnx.py.
type onnxJob struct {
	Model  string         `json:"model"`
	Inputs map[string]any `json:"inputs"`

	name  string
	want  [][][]float64 // outputs of the engine: of a step, of a row
	names []string      // of the outputs, side by side in a row
	meta  models.Checkpoint
	file  string // of the native model
}

// steps and rows are those of a job.
const onnxSteps, onnxRows = 3, 8

// newOnnxJob exports the model at path and plays it on random observations.
func newOnnxJob(t *testing.T, name, path string, rng *rand.Rand) onnxJob {
	t.Helper()
	file := filepath.Join(t.TempDir(), "model.onnx")
	res, err := exportONNX(path, file)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	f, err := models.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := onnxParts(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	job := onnxJob{name: name, Model: file, names: res.Outputs, file: path}
	job.play(t, f, f.Meta.Spec, parts, rng)
	return job
}

// resized returns the job's model for other numbers of nodes and edges than those of its file.
func (j onnxJob) resized(t *testing.T, path string, nodes, edges int, rng *rand.Rand) onnxJob {
	t.Helper()
	f, err := models.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := onnxParts(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := f.Meta.Spec.WithNodes(nodes, edges)
	if err != nil {
		t.Fatal(err)
	}
	for i := range parts {
		switch parts[i].Name {
		case "nodes":
			parts[i].Shape = []int{nodes, parts[i].Shape[1]}
		case "edges":
			parts[i].Shape = []int{edges, 2}
		case "edge_mask":
			parts[i].Shape = []int{edges}
		}
	}
	job := onnxJob{name: j.name + ", other numbers of nodes and edges", Model: j.Model, names: j.names}
	job.play(t, f, spec, parts, rng)
	return job
}

// play draws observations and fills in what the engine makes of them.
func (j *onnxJob) play(t *testing.T, f models.File, spec models.Spec, parts []onnx.Part, rng *rand.Rand) {
	t.Helper()
	j.meta = f.Meta
	net, err := play.NewNetwork(play.EngineFused, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer net.Close()
	if err := f.Params(net.Params()); err != nil {
		t.Fatal(err)
	}
	norm, err := normalize.Load(f, spec, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if parts == nil {
		parts = []onnx.Part{{Name: onnx.Input, Shape: []int{spec.Inputs}}}
	}
	j.Inputs = map[string]any{}
	arrays := make([][][]any, len(parts)) // of a part, of a step, of a row
	var starts [][]bool
	state := make([]float32, onnxRows*spec.StateSize())
	for step := range onnxSteps {
		obs := randomObs(spec, rng)
		at := 0
		for k, p := range parts {
			size := 1
			for _, d := range p.Shape {
				size *= d
			}
			var rows []any
			for r := range onnxRows {
				rows = append(rows, nested(obs[r*spec.Inputs+at:][:size], p.Shape))
			}
			arrays[k] = append(arrays[k], rows)
			at += size
		}
		start := make([]bool, onnxRows)
		for r := range start {
			start[r] = step > 0 && (r+step)%3 == 0
		}
		starts = append(starts, start)
		seen := make([]float32, len(obs))
		norm.Obs(seen, obs)
		var out []float32
		if r, ok := net.(models.Recurrent); ok && spec.StateSize() > 0 {
			out, err = r.ForwardStep(seen, onnxRows, state, start)
		} else {
			out, err = net.Forward(seen, onnxRows)
		}
		if err != nil {
			t.Fatalf("%s: %v", j.name, err)
		}
		j.want = append(j.want, wantedRows(f.Meta.Algo, spec, out, state))
	}
	for k, p := range parts {
		j.Inputs[p.Name] = arrays[k]
	}
	if spec.StateSize() > 0 {
		j.Inputs[onnx.EpisodeStart] = starts
	}
}

// wantedRows returns, for each row, the numbers of the outputs side by side: action values of a
// DQN, whatever its heads, and else those of heads that depend on the observation.
func wantedRows(algo string, spec models.Spec, out, state []float32) [][]float64 {
	k, size := spec.Outputs(), spec.StateSize()
	rows := make([][]float64, onnxRows)
	for r := range rows {
		row := out[r*k : (r+1)*k]
		add := func(x ...float32) {
			for _, v := range x {
				rows[r] = append(rows[r], float64(v))
			}
		}
		_, actions := spec.Head(spec.Heads[0].Name)
		switch {
		case algo == dqn.Algo && k > actions: // V + A − mean A
			mean := 0.0
			for _, a := range row[:actions] {
				mean += float64(a) / float64(actions)
			}
			for _, a := range row[:actions] {
				rows[r] = append(rows[r], float64(row[actions])+float64(a)-mean)
			}
		default:
			at := 0
			for i, h := range spec.Heads {
				if !h.Free {
					add(row[at : at+spec.HeadWidth(i)]...)
				}
				at += spec.HeadWidth(i)
			}
		}
		add(state[r*size : (r+1)*size]...)
	}
	return rows
}

// randomObs returns rows of normal numbers, in which edges lead to and from nodes and half of
// them are masked out.
func randomObs(spec models.Spec, rng *rand.Rand) []float32 {
	obs := make([]float32, onnxRows*spec.Inputs)
	for r := range onnxRows {
		row := obs[r*spec.Inputs : (r+1)*spec.Inputs]
		for i := range row {
			row[i] = float32(rng.NormFloat64())
		}
		if spec.Nodes == nil || spec.Nodes.Edges == nil || spec.Nodes.Edges.N == 0 {
			continue
		}
		e := spec.Nodes.Edges
		for i := e.Ends().Start; i < e.Ends().End; i++ {
			row[i] = float32(rng.IntN(spec.Nodes.N))
		}
		for i := e.Mask().Start; e.Masked && i < e.Mask().End; i++ {
			row[i] = float32(rng.IntN(2))
		}
	}
	return obs
}

// nested returns x as lists of that shape.
func nested(x []float32, shape []int) any {
	if len(shape) == 1 {
		return x
	}
	list := make([]any, shape[0])
	size := len(x) / shape[0]
	for i := range list {
		list[i] = nested(x[i*size:(i+1)*size], shape[1:])
	}
	return list
}

// checkOnnx runs jobs in onnxruntime and compares.
func checkOnnx(t *testing.T, jobs []onnxJob) {
	t.Helper()
	interpreter := os.Getenv("ONNX_PYTHON")
	if interpreter == "" {
		t.Skip("set ONNX_PYTHON to a Python that has the pip packages onnx and onnxruntime")
	}
	var got []map[string]json.RawMessage
	python(t, interpreter, "check_onnx.py", jobs, &got)
	for i, job := range jobs {
		t.Run(job.name, func(t *testing.T) { job.compare(t, got[i]) })
	}
}

func (j onnxJob) compare(t *testing.T, got map[string]json.RawMessage) {
	have := j.outputs(t, got)
	j.compareRows(t, j.want, have, j.want)
	var metadata map[string]string
	if err := json.Unmarshal(got["metadata"], &metadata); err != nil || metadata["env"] != j.meta.Env || metadata["algo"] != j.meta.Algo {
		t.Errorf("metadata %v, %v", metadata, err)
	}
}

// outputs returns the numbers of the outputs, side by side in a row.
func (j onnxJob) outputs(t *testing.T, got map[string]json.RawMessage) [][][]float64 {
	t.Helper()
	have := make([][][]float64, onnxSteps)
	for _, name := range j.names {
		var x [][][]float64
		if err := json.Unmarshal(got[name], &x); err != nil || len(x) != onnxSteps {
			t.Fatalf("output %s: %d steps, %v; want %d", name, len(x), err, onnxSteps)
		}
		for s := range x {
			if have[s] == nil {
				have[s] = make([][]float64, len(x[s]))
			}
			for r := range x[s] {
				have[s][r] = append(have[s][r], x[s][r]...)
			}
		}
	}
	return have
}

// compareRows compares what a peer computed with what is wanted, which was computed from the
// numbers of from.
func (j onnxJob) compareRows(t *testing.T, wanted, have, from [][][]float64) {
	t.Helper()
	spread := false
	for s := range wanted {
		for r, want := range wanted[s] {
			if len(want) != len(have[s][r]) {
				t.Fatalf("step %d, row %d: %d numbers, want %d", s, r, len(have[s][r]), len(want))
			}
			scale := 1.0
			for _, x := range from[s][r] {
				scale = max(scale, math.Abs(x))
			}
			for k, x := range want {
				if !(math.Abs(x-have[s][r][k]) <= onnxLimit*scale) {
					t.Fatalf("step %d, row %d, number %d: the peer %v, the engine %v", s, r, k, have[s][r][k], x)
				}
				spread = spread || math.Abs(x-wanted[0][0][k]) > 100*onnxLimit
			}
			j.compareMasked(t, want, have[s][r], s+r)
		}
	}
	if !spread {
		t.Error("all rows are the same: the test tells nothing")
	}
}

// compareMasked compares the greedy actions, of those of a discrete choice, under a mask that
// leaves out every third action.
func (j onnxJob) compareMasked(t *testing.T, want, have []float64, shift int) {
	var d space.Description
	if err := json.Unmarshal([]byte(j.meta.ActionSpace), &d); err != nil || d.Kind != "discrete" {
		return
	}
	greedy := func(x []float64) (best int, margin float64) {
		best, margin = -1, math.Inf(1)
		for a := range x {
			if (a+shift)%3 == 0 {
				continue
			}
			switch {
			case best < 0:
				best = a
			case x[a] > x[best]:
				best, margin = a, x[a]-x[best]
			default:
				margin = min(margin, x[best]-x[a])
			}
		}
		return best, margin
	}
	n := min(d.N[0], len(want))
	a, margin := greedy(want[:n])
	if b, _ := greedy(have[:n]); a != b && margin > 2*onnxLimit {
		t.Errorf("masked, the peer takes action %d, the engine %d", b, a)
	}
}

// TestONNXRuntimeAgreesOnShippedModels compares what onnxruntime computes of each shipped model
// with our network; of one over nodes also at another number of nodes.
func TestONNXRuntimeAgreesOnShippedModels(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var jobs []onnxJob
	for _, path := range shippedModels(t) {
		name := shippedName(path)
		job := newOnnxJob(t, name, path, rng)
		jobs = append(jobs, job)
		if n := job.meta.Spec.Nodes; n != nil {
			jobs = append(jobs, job.resized(t, path, n.N+2, 0, rng))
		}
	}
	checkOnnx(t, jobs)
}

// randomModel writes a model of random parameters and, if norm, of random statistics.
func randomModel(t *testing.T, algo string, spec models.Spec, obs, act space.Space, norm bool, rng *rand.Rand) string {
	t.Helper()
	params := models.NewParams(spec)
	for _, p := range params {
		for i := range p.Value {
			p.Value[i] = float32(0.4 * rng.NormFloat64())
		}
	}
	meta, err := agents.EnvInfo{ID: "test/Random-v0", Obs: obs, Act: act}.Checkpoint(algo, spec)
	if err != nil {
		t.Fatal(err)
	}
	f := models.File{Meta: meta}
	f.PutParams(params)
	if norm {
		z := normalize.New(normalize.Normalization{NormObs: true, ClipObs: 1.5}, spec, 1, 0.9)
		rows := randomObs(spec, rng)
		for i := range rows {
			rows[i] = 2*rows[i] + 1
		}
		z.Start(rows)
		if err := z.Save(&f); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := models.WriteFile(path, f); err != nil {
		t.Fatal(err)
	}
	return path
}

// kindNodes are the nodes of an onnxKind.
const kindNodes = 5

// onnxKind is a kind of network.
type onnxKind struct {
	name, algo, policy, pool string
	wait, norm, layerNorm    bool
	dueling                  bool
	edges                    int // in the observation
	masked                   bool
	fixed                    [][2]int // edges of the network, in place of those in the observation
	lstm                     *policies.LSTM
}

// onnxKinds are networks of every kind.
var onnxKinds = []onnxKind{
	{name: "nodes", algo: "ppo", policy: policies.Node, pool: models.MeanMax},
	{name: "nodes, waiting, normalized", algo: "a2c", policy: policies.Node, pool: models.Mean, wait: true, norm: true, layerNorm: true},
	{name: "dqn nodes", algo: "dqn", policy: policies.Node, pool: models.Max, wait: true, norm: false},
	{name: "dqn nodes, dueling", algo: "dqn", policy: policies.Node, pool: models.MeanMax, dueling: true, wait: true},
	{name: "sage", algo: "ppo", policy: policies.SAGE, pool: models.MeanMax, edges: 7},
	{name: "sage, masked, waiting, normalized", algo: "ppo", policy: policies.SAGE, pool: models.Max, edges: 9, masked: true, wait: true, norm: true},
	{name: "gcn", algo: "reinforce", policy: policies.GCN, pool: models.Mean, edges: 7, layerNorm: true},
	{name: "gcn, masked, normalized", algo: "ppo", policy: policies.GCN, pool: models.MeanMax, edges: 12, masked: true, norm: true},
	{name: "dqn gcn, dueling", algo: "dqn", policy: policies.GCN, pool: models.MeanMax, edges: 5, masked: true, dueling: true},
	{name: "sage, fixed edges", algo: "ppo", policy: policies.SAGE, pool: models.MeanMax, fixed: [][2]int{{0, 1}, {2, 1}, {3, 3}, {1, 4}, {2, 1}}},
	{name: "gcn, fixed edges, normalized", algo: "ppo", policy: policies.GCN, pool: models.MeanMax, norm: true, fixed: [][2]int{{0, 1}, {2, 1}, {3, 3}, {1, 4}, {2, 1}}},
	{name: "dqn of dense layers, dueling", algo: "dqn", policy: policies.Mlp, dueling: true, norm: true, layerNorm: true},
	{name: "dict of dense layers, normalized", algo: "ppo", policy: policies.Mlp, norm: true, edges: 3},
	{name: "lstm", algo: "ppo_lstm", policy: policies.MlpLSTM, lstm: &policies.LSTM{LSTMHiddenSize: 5, NLSTMLayers: 1, EnableCriticLSTM: true}},
	{name: "lstm of three layers, normalized", algo: "ppo_lstm", policy: policies.MlpLSTM, norm: true, lstm: &policies.LSTM{LSTMHiddenSize: 5, NLSTMLayers: 3, EnableCriticLSTM: true}},
	{name: "shared lstm", algo: "ppo_lstm", policy: policies.MlpLSTM, lstm: &policies.LSTM{LSTMHiddenSize: 5, NLSTMLayers: 1, SharedLSTM: true}},
	{name: "lstm beside nodes, dense critic", algo: "ppo_lstm", policy: policies.NodeLSTM, pool: models.Mean, wait: true, lstm: &policies.LSTM{LSTMHiddenSize: 5, NLSTMLayers: 2}},
	{name: "lstm beside sage, normalized", algo: "ppo_lstm", policy: policies.SAGELSTM, pool: models.MeanMax, edges: 6, masked: true, norm: true, lstm: &policies.LSTM{LSTMHiddenSize: 5, NLSTMLayers: 1, EnableCriticLSTM: true}},
	{name: "shared lstm beside gcn", algo: "ppo_lstm", policy: policies.GCNLSTM, pool: models.Max, edges: 6, lstm: &policies.LSTM{LSTMHiddenSize: 5, NLSTMLayers: 1, SharedLSTM: true}},
}

// file writes a model of a kind, with random parameters.
func (k onnxKind) file(t *testing.T, rng *rand.Rand) (path string, spec models.Spec) {
	t.Helper()
	const n = kindNodes
	fields := []space.Field{{Key: "pod", Space: space.NewBox(-1, 1, 3)}, {Key: "nodes", Space: space.NewBox(-1, 1, n, 4)}}
	if k.edges > 0 {
		fields = append(fields, space.Field{Key: "edges", Space: space.NewBox(0, n-1, k.edges, 2)})
	}
	if k.masked {
		fields = append(fields, space.Field{Key: "edge_mask", Space: space.NewBox(0, 1, k.edges)})
	}
	obs, act := space.Dict{Fields: append(fields, space.Field{Key: "time", Space: space.NewBox(0, 1, 1)})}, space.Discrete{N: n}
	if k.wait {
		act.N++
	}
	network := policies.Network{Policy: k.policy, NetArch: []int{8, 6}, ActivationFn: models.ReLU, LayerNorm: k.layerNorm, Pool: k.pool}
	var err error
	switch {
	case k.fixed != nil:
		nodes := models.Nodes{Offset: 3, N: n, Features: 4, Edges: &models.Edges{Fixed: k.fixed, Undirected: true}}
		layer := map[string]string{policies.SAGE: models.SAGE, policies.GCN: models.GCN}[k.policy]
		spec = models.NodeActorCritic(obs.Size(), nodes, network.NetArch, models.ReLU, layer, k.pool, k.wait)
	case k.lstm != nil:
		spec, err = network.RecurrentActorCritic(obs, act, *k.lstm)
	case k.algo == dqn.Algo:
		spec, err = network.ActionValues(obs, act, k.dueling)
	default:
		spec, err = network.ActorCritic(obs, act)
	}
	if err != nil {
		t.Fatalf("%s: %v", k.name, err)
	}
	return randomModel(t, k.algo, spec, obs, act, k.norm, rng), spec
}

// TestONNXRuntimeAgreesOnEveryKind compares networks of every kind, with random parameters,
// at two numbers of nodes and edges.
func TestONNXRuntimeAgreesOnEveryKind(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var jobs []onnxJob
	for _, k := range onnxKinds {
		path, spec := k.file(t, rng)
		job := newOnnxJob(t, k.name, path, rng)
		jobs = append(jobs, job)
		if spec.Nodes != nil && k.fixed == nil {
			jobs = append(jobs, job.resized(t, path, kindNodes+4, k.edges+min(k.edges, 3), rng))
		}
	}
	checkOnnx(t, jobs)
}

// TestONNXRuntimeAgrees compares trained models of every algorithm and kind of dense network.
func TestONNXRuntimeAgrees(t *testing.T) {
	if os.Getenv("ONNX_PYTHON") == "" {
		checkOnnx(t, nil) // skips before the trainings
	}
	rng := rand.New(rand.NewPCG(7, 8))
	var jobs []onnxJob
	for _, tc := range peerModels {
		jobs = append(jobs, newOnnxJob(t, tc.name, trainPeer(t, tc.algo, tc.params), rng))
	}
	checkOnnx(t, jobs)
}

// TestExport: a file for each algorithm, and what is refused.
func TestExport(t *testing.T) {
	path := trainPeer(t, "dqn", peerModels[len(peerModels)-1].params)
	file := filepath.Join(t.TempDir(), "m.onnx")
	res := clitest.Decode[exportResult](t, mustExecute(t, "export", "--model", path, "--onnx", file, "--json"))
	if diff := cmp.Diff(exportResult{path, file, onnx.Opset, []string{"obs"}, []string{"q_values"}}, res); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	text := envstest.Read(t, file)
	for _, want := range []string{"q_net.q_net.0.weight", "q_net.advantage_net.bias", "ReduceMean", "classic/CartPole-v1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the file lacks %q", want)
		}
	}
}

// TestExportsForecastersIndices: the metadata say which elements of an observation the network
// reads.
func TestExportsForecastersIndices(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.onnx")
	mustExecute(t, "export", "--model", filepath.Join(pretrainedFolder, "k8s-VerticalPodAutoscaler-v0", "lstm_forecaster.safetensors"), "--onnx", file)
	want, err := json.Marshal(forecast.Inputs())
	if err != nil {
		t.Fatal(err)
	}
	if text := envstest.Read(t, file); !strings.Contains(text, "observation_indices") || !strings.Contains(text, string(want)) {
		t.Errorf("the metadata lack observation_indices %s", want)
	}
}
