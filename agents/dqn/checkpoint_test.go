package dqn_test

import (
	"bytes"
	"compress/zlib"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// tiny returns a configuration that learns after each step of 2 environments from the second on.
func tiny() dqn.Config {
	cfg := dqn.Defaults()
	cfg.LearningStarts, cfg.TrainFreq, cfg.BatchSize, cfg.BufferSize, cfg.NetArch, cfg.TotalTimesteps = 2, 1, 4, 100, []int{4}, 64
	return cfg
}

func TestSaveBetweenActAndObserve(t *testing.T) {
	r := newRun(t, envcheck.Identity(5), 2, tiny(), 1)
	if err := r.L.Act(r.Batch, r.Actions); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := r.L.Save(&buf); err == nil || buf.Len() != 0 {
		t.Errorf("Save wrote %d bytes with error %v, want 0 and an error", buf.Len(), err)
	}
}

func TestCheckpointDescribesTheLearner(t *testing.T) {
	want := tiny()
	want.TotalTimesteps = 0 // belongs to the run
	agentstest.CheckDescribes(t, "dqn", want, func(seed uint64) *agentstest.Run[*dqn.Learner] {
		return newRun(t, envcheck.Identity(5), 2, tiny(), seed)
	})
}

func TestLoadRefusesWhatBelongsToAnother(t *testing.T) {
	run := func(t *testing.T, spec *envs.Spec, width int, seed uint64) *agentstest.Run[*dqn.Learner] {
		cfg := tiny()
		cfg.NetArch = []int{width}
		return newRun(t, spec, 2, cfg, seed)
	}
	agentstest.CheckRejectedFiles(t, "q_net.q_net.2.bias", run, func(same []byte) []agentstest.RejectedFile {
		other := func(steps int, change func(*dqn.Config)) []byte {
			cfg := tiny()
			change(&cfg)
			r := newRun(t, envcheck.Identity(5), 2, cfg, 3)
			r.Train(steps)
			return r.Saved()
		}
		without := func(name string) agentstest.RejectedFile {
			return agentstest.RejectedFile{Name: "no " + name, File: agentstest.Without(t, same, name), Is: models.ErrMismatch, Parts: []string{name}}
		}
		negative := agentstest.Edited(t, same, func(f *models.File) { f.Meta.State = []byte(`{"n_calls":-1}`) })
		return []agentstest.RejectedFile{
			without("state.target.q_net.q_net.0.weight"),
			{Name: "no rewards in the buffer", File: replayBuffer(t, same, func(f *safetensors.File) {
				f.Tensors = slices.DeleteFunc(f.Tensors, func(t safetensors.Tensor) bool { return t.Name == "state.replay.reward" })
			}), Is: models.ErrMismatch, Parts: []string{"state.replay.reward"}},
			{Name: "buffer that is not compressed", File: agentstest.Edited(t, same, func(f *models.File) {
				tensorOf(t, f.Tensors, bufferTensor).Data = make([]uint8, len(tensorOf(t, f.Tensors, bufferTensor).Data.([]uint8)))
			}), Is: models.ErrMismatch, Parts: []string{"replay buffer", "zlib"}},
			{Name: "negative number", File: negative, Is: models.ErrMismatch, Parts: []string{"negative"}},
			{Name: "buffer of another size", File: other(600, func(c *dqn.Config) { c.BufferSize = 1000 }), Is: models.ErrMismatch, Parts: []string{"state.replay.kind"}},
			{Name: "dueling", File: other(32, func(c *dqn.Config) { c.Dueling = true }), Is: models.ErrMismatch, Parts: []string{"network", "advantage_net"}},
		}
	})
}

func TestLoadPassesOnTheReadersError(t *testing.T) {
	newRun(t, envcheck.Identity(5), 2, tiny(), 1).CheckReadError()
}

// TestLoadForgetsTheRest loads between Act and Observe: what was chosen belongs to other
// parameters.
func TestLoadForgetsTheRest(t *testing.T) {
	r := newRun(t, envcheck.Identity(5), 2, tiny(), 1)
	r.Train(16)
	file := r.Saved()
	r.Train(16)
	if err := r.L.Act(r.Batch, r.Actions); err != nil {
		t.Fatal(err)
	}
	r.CheckLoads(file, 16)
}

// TestNewPolicy compares the policy of a checkpoint's parameters alone with the learner's.
func TestNewPolicy(t *testing.T) {
	r := newRun(t, envcheck.Identity(5), 2, quick(), 1)
	r.Train(512)
	net := agentstest.Network(t, r.L.Spec(), 99)
	if _, err := net.ReadFrom(bytes.NewReader(r.Saved())); err != nil {
		t.Fatal(err)
	}
	policy, err := dqn.NewPolicy(net, agentstest.Parse(t, r.Saved()))
	if err != nil {
		t.Fatal(err)
	}
	r.CheckPolicy(policy)
}

const bufferTensor = "state.replay_buffer"

func tensorOf(t *testing.T, tensors []safetensors.Tensor, name string) *safetensors.Tensor {
	t.Helper()
	i := slices.IndexFunc(tensors, func(t safetensors.Tensor) bool { return t.Name == name })
	if i < 0 {
		t.Fatalf("no tensor %q", name)
	}
	return &tensors[i]
}

// replayBuffer returns a checkpoint whose buffer, a safetensors file compressed by zlib, is changed.
func replayBuffer(t *testing.T, file []byte, change func(f *safetensors.File)) []byte {
	t.Helper()
	return agentstest.Edited(t, file, func(f *models.File) {
		tensor := tensorOf(t, f.Tensors, bufferTensor)
		z, err := zlib.NewReader(bytes.NewReader(tensor.Data.([]uint8)))
		if err != nil {
			t.Fatal(err)
		}
		arrays, err := safetensors.Read(z)
		if err != nil {
			t.Fatal(err)
		}
		change(arrays)
		var buf bytes.Buffer
		w := zlib.NewWriter(&buf)
		if err := errors.Join(safetensors.Write(w, arrays.Tensors, nil), w.Close()); err != nil {
			t.Fatal(err)
		}
		tensor.Shape, tensor.Data = []int{buf.Len()}, buf.Bytes()
	})
}

// TestReplayBufferIsCompressed compares the tensor with the arrays in it.
func TestReplayBufferIsCompressed(t *testing.T) {
	cfg := tiny()
	cfg.BufferSize = 4000
	r := newRun(t, envcheck.Identity(5), 2, cfg, 1)
	r.Train(4000)
	file := r.Saved()
	size := replay.CompressedBytes(agentstest.Parse(t, file))
	raw := 0
	replayBuffer(t, file, func(f *safetensors.File) {
		raw = 4 * len(tensorOf(t, f.Tensors, "state.replay.obs").Data.([]float32))
	})
	if size == 0 || size >= raw { // of one-hot observations alone
		t.Errorf("a buffer of %d bytes, whose observations have %d", size, raw)
	}
	var without bytes.Buffer
	if err := r.L.SaveWithoutReplayBuffer(&without); err != nil {
		t.Fatal(err)
	}
	f := agentstest.Parse(t, without.Bytes())
	if replay.InCheckpoint(f) || replay.CompressedBytes(f) != 0 || !replay.InCheckpoint(agentstest.Parse(t, file)) {
		t.Error("InCheckpoint does not distinguish the checkpoints")
	}
}

// TestReplayBufferOfEarlierVersions loads arrays that are not compressed.
func TestReplayBufferOfEarlierVersions(t *testing.T) {
	for _, prioritized := range []bool{false, true} {
		cfg := tiny()
		cfg.PrioritizedReplay = prioritized
		r := newRun(t, envcheck.Identity(5), 2, cfg, 1)
		r.Train(32)
		earlier := agentstest.Edited(t, r.Saved(), func(f *models.File) {
			var arrays []safetensors.Tensor
			replayBuffer(t, r.Saved(), func(b *safetensors.File) { arrays = b.Tensors })
			f.Tensors = slices.DeleteFunc(f.Tensors, func(t safetensors.Tensor) bool { return t.Name == bufferTensor })
			f.Put(arrays...)
		})
		want := r.Saved()
		second := newRun(t, envcheck.Identity(5), 2, cfg, 1)
		if err := second.L.Load(bytes.NewReader(earlier)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(second.Saved(), want) {
			t.Errorf("prioritized %v: the checkpoint after Load is not the one loaded", prioritized)
		}
	}
}

// TestWithoutReplayBuffer resumes from a checkpoint that leaves out the buffer: learning waits
// for learning_starts timesteps again.
func TestWithoutReplayBuffer(t *testing.T) {
	cfg := tiny()
	cfg.CheckpointReplayBuffer, cfg.LearningStarts = false, 10
	r := newRun(t, envcheck.Identity(5), 2, cfg, 1)
	r.Train(32)
	file := r.Saved()
	for _, tensor := range agentstest.Parse(t, file).Tensors {
		if strings.Contains(tensor.Name, "replay") {
			t.Errorf("the checkpoint holds %s", tensor.Name)
		}
	}
	second := newRun(t, envcheck.Identity(5), 2, cfg, 1)
	second.Train(40) // to be forgotten
	if err := second.L.Load(bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	for timesteps := 34; timesteps <= 48; timesteps += 2 {
		learned := second.Cycle()
		if learns := timesteps > 32+10; learns != learned || second.L.NumTimesteps() != timesteps {
			t.Errorf("at timestep %d, counted as %d, learned is %v", timesteps, second.L.NumTimesteps(), learned)
		}
	}
	// A learner whose configuration asks for the buffer takes a checkpoint without, too.
	if err := newRun(t, envcheck.Identity(5), 2, tiny(), 1).L.Load(bytes.NewReader(file)); err != nil {
		t.Error(err)
	}
}
