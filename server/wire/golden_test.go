package wire

import (
	"encoding/hex"
	"encoding/json"
	"flag"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/space"
)

var update = flag.Bool("update", false, "rewrite testdata/frames.json")

// goldenFrame is an entry of testdata/frames.json, which clients in other languages read too.
type goldenFrame struct {
	Name    string         `json:"name"`
	Hex     string         `json:"hex"`
	Decoded map[string]any `json:"decoded"` // arrays as dtype, shape, data; infinities as strings
}

// goldenRows is a batch of two environments in which everything happens.
func goldenRows(l *Layout) *Rows {
	r := newRows(l)
	for i := range r.Obs {
		r.Obs[i], r.FinalObs[i] = float32(i%2), 1
	}
	for i := range r.Mask {
		r.Mask[i] = i%3 != 1
	}
	for i := range r.FinalMask {
		r.FinalMask[i] = i%3 != 2
	}
	copy(r.Reward, []float64{1.5, -2})
	r.Terminated[1], r.Invalid[0] = true, true
	copy(r.Info, []float64{0.25, 3, 1, math.Pi, -4, 0})
	copy(r.FinalInfo, []float64{9, 9, 9, 0.5, 7, 1}) // of row 0 stale
	copy(r.EpisodeReturn, []float64{1.5, 10.25})
	copy(r.EpisodeLength, []int64{1, 12})
	return r
}

// goldenRollout is a rollout of two steps of two environments, in each of which an episode ends.
func goldenRollout(l *Layout) *Rollout {
	t := &Transitions{
		Obs: make([]float32, 4*l.ObsSize), Mask: make([]bool, 4*l.Mask), Actions: []float32{0, 1, 2, 0}, Reward: []float64{1, 2, 3, -4.5},
		Terminated: []bool{false, true, false, false}, Truncated: []bool{false, false, false, true},
		Invalid: []bool{true, false, false, false}, None: []bool{false, false, true, false},
	}
	for i := range t.Obs {
		t.Obs[i] = float32(i % 2)
	}
	for i := range t.Mask {
		t.Mask[i] = i%4 != 2
	}
	o := &Rollout{
		Steps: 2, Cut: true, At: []int32{1, 2}, Idx: []int32{1, 1}, Return: []float64{10.25, -4.5}, Length: []int64{12, 1},
		Info: []float64{0.25, 3, 1, 0.5, -7, 0}, Last: make([]float32, 2*l.ObsSize), Transitions: t,
	}
	for i := range o.Last {
		o.Last[i] = 1
	}
	return o
}

func goldenFrames(t *testing.T) []goldenFrame {
	w := NewWriter()
	var frames []goldenFrame
	add := func(name string, err error) {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		frames = append(frames, goldenFrame{name, hex.EncodeToString(w.Bytes()), decodeAny(t, w.Bytes())})
	}
	message := func(name string, v any) {
		w.Reset()
		add(name, w.Encode(v))
	}
	two, eid := 2, uint64(1)
	message("hello", &Hello{T: TypeHello, ID: 1, Ver: []int{1, 0}, Client: "test/1"})
	message("welcome", &Welcome{T: TypeWelcome, ID: 1, Ver: []int{1, 0}, Server: "kubernasium/0.1.0", SID: "00ff", Caps: []string{}, Limits: DefaultLimits()})
	message("hello of version 1.1", &Hello{T: TypeHello, ID: 1, Ver: []int{1, 1}, Client: "test/1"})
	message("welcome of version 1.1", &Welcome{T: TypeWelcome, ID: 1, Ver: []int{1, 1}, Server: "kubernasium/0.1.0", SID: "00ff", Caps: Caps(1), Limits: DefaultLimits()})
	message("hello of version 1.2", &Hello{T: TypeHello, ID: 1, Ver: []int{1, 2}, Client: "test/1"})
	message("welcome of version 1.2", &Welcome{T: TypeWelcome, ID: 1, Ver: []int{1, 2}, Server: "kubernasium/0.1.0", SID: "00ff", Caps: Caps(2), Limits: DefaultLimits()})
	message("make", &MakeRequest{T: TypeMake, ID: 2, Env: "classic/CartPole-v1", N: &two, Options: map[string]any{"x": 1}, Autoreset: "SAME_STEP"})
	threshold := 475.0
	message("make.ok", &MakeReply{
		T: TypeMake + OK, ID: 2, EID: 1, Env: "test/Dict-v0", N: 2, Autoreset: "SAME_STEP", MaxEpisodeSteps: 500,
		ObsSpace: dictSpace.Describe(), ActSpace: space.Discrete{N: 3}.Describe(), Mask: 3, Copies: true,
		Spec: Spec{ID: "test/Dict-v0", Doc: "A test.", RewardThreshold: &threshold, RenderModes: []string{"ansi"},
			Options: []Option{{Name: "steps", Type: "int", Default: 400, Doc: "of an episode"}}, HeldOut: map[string]any{"split": "heldout"}, Info: infoColumns,
			Metrics: []Metric{{Column: "cost", Unit: "s", Lower: true}}, Baselines: []Baseline{{Name: "best", Doc: "Knows.", Oracle: true}}},
	})
	message("reset with a seed", &ResetRequest{T: TypeReset, ID: 3, EID: 1, Seed: uint64(7)})
	message("reset with seeds, options and a mask", &ResetRequest{T: TypeReset, ID: 3, EID: 1, Seed: []any{uint64(7), nil}, Options: map[string]any{"k": "v"}, Mask: []bool{true, false}})
	message("err", &Error{T: TypeErr, ID: 9, Code: InvalidArgument, Reason: InvalidAction, Msg: "no", EID: &eid})
	message("stats.ok", &StatsReply{T: TypeStats + OK, ID: 9, Steps: 100, StepUSP50: 1.5, StepUSP99: 20})
	EncodeDrain(w, 5000)
	add("drain", nil)

	l := newLayout(t, 2, boxSpace, space.Discrete{N: 3}, infoColumns)
	l.EncodeStepRequest(w, 4, 1, []float32{2, 0})
	add("step", nil)
	r := goldenRows(l)
	l.EncodeStep(w, 4, r, true)
	add("step.ok of SAME_STEP with everything", nil)
	l.EncodeStep(w, 4, r, false)
	add("step.ok of NEXT_STEP with an episode's end", nil)
	seed := uint64(1) << 52
	l.EncodeReset(w, 3, r, &seed)
	add("reset.ok with drawn seed", nil)
	policySeed := uint64(7)
	message("step by a baseline", &StepByRequest{T: TypeStep, ID: 8, EID: 1, Policy: "static_2"})
	message("step at random", &StepByRequest{T: TypeStep, ID: 8, EID: 1, Policy: "random", Seed: &policySeed})
	message("policy", &PolicyRequest{T: TypePolicy, ID: 7, EID: 1, Name: "random", Seed: &policySeed})
	l.EncodePolicy(w, 7, []float32{2, 0}, []bool{false, true})
	add("policy.ok with everything", nil)
	message("rollout of episodes", &RolloutRequest{T: TypeRollout, ID: 8, EID: 1, Name: "static_2", Episodes: 3})
	message("rollout of steps with arrays", &RolloutRequest{T: TypeRollout, ID: 8, EID: 1, Name: "random", Seed: &policySeed, Steps: 2, Arrays: true})
	l.EncodeRollout(w, 8, goldenRollout(l), goldenRows(l), true)
	add("rollout.ok with everything", nil)
	quietRollout := &Rollout{Steps: 5}
	l.EncodeRollout(w, 8, quietRollout, newRows(l), false)
	add("rollout.ok in which no episode ended", nil)
	message("snapshot", &EIDRequest{T: TypeSnapshot, ID: 9, EID: 1})
	message("snapshot.ok", &SnapshotReply{T: TypeSnapshot + OK, ID: 9, Snap: 3})
	message("restore", &SnapRequest{T: TypeRestore, ID: 10, EID: 1, Snap: 3})
	l.EncodeState(w, TypeRestore, 10, r)
	add("restore.ok after an episode's end", nil)
	message("fork", &ForkRequest{T: TypeFork, ID: 11, EID: 1, From: 1, To: []int{0}})
	message("forget", &SnapRequest{T: TypeForget, ID: 12, EID: 1, Snap: 3})
	plain := newLayout(t, 1, space.NewBox(-1, 1, 4), space.Discrete{N: 2}, nil)
	quiet := newRows(plain)
	quiet.Reward[0], quiet.Mask[0], quiet.Mask[1] = 1, true, true
	plain.EncodeStep(w, 5, quiet, true)
	add("step.ok with nothing but observation and reward", nil)
	d := newLayout(t, 2, dictSpace, space.MultiDiscrete{NVec: []int{2, 3}}, nil)
	d.EncodeStep(w, 6, goldenRows(d), true)
	add("step.ok with observations of a dict", nil)
	d.EncodeStepRequest(w, 6, 2, []float32{1, 2, 0, 1})
	add("step of a multi_discrete", nil)
	message("make with parts of observations and isolated failures", &MakeRequest{T: TypeMake, ID: 2, Env: "test/Dict-v0", N: &two, EnvError: true, ObsKeys: []string{"more"}})
	l.EncodeSend(w, 13, 1, []int{1, 0}, []float32{2, 0})
	add("send", nil)
	wait := uint64(20)
	message("recv", &RecvRequest{T: TypeRecv, ID: 14, EID: 1, Min: 1, Max: 2, WaitMS: &wait})
	l.EncodeRecv(w, 14, []int{4, 7}, r, true)
	add("recv.ok of two environments", nil)
	r.Failed = []error{nil, Errorf(EnvFailed, "the environment failed")}
	l.EncodeStep(w, 15, r, true)
	add("step.ok in which an environment failed", nil)
	l.EncodeReset(w, 16, r, nil)
	add("reset.ok in which an environment failed", nil)
	boxed := newLayout(t, 2, boxSpace, boxSpace, nil)
	boxed.EncodeStepRequest(w, 7, 3, []float32{-1, 0, 1, 0.5, 0.25, -0.5})
	add("step of a box", nil)
	return frames
}

// testdata/frames.json was compared with what Python's msgpack decodes.
func TestGoldenFrames(t *testing.T) {
	const path = "testdata/frames.json"
	got := goldenFrames(t)
	if *update {
		data, err := json.MarshalIndent(got, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want []goldenFrame
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

// The example of PROTOCOL.md, section 4, which was written by hand.
func TestWorkedExample(t *testing.T) {
	const want = "84a174a473746570a2696403a365696401a161c71a4e00070102020000000000" + "01000000000000000000000000000000"
	l := newLayout(t, 2, boxSpace, space.Discrete{N: 3}, nil)
	w := NewWriter()
	l.EncodeStepRequest(w, 3, 1, []float32{1, 0})
	if got := hex.EncodeToString(w.Bytes()); got != want {
		t.Errorf("step = %s,\n     want %s", got, want)
	}
	data, err := hex.DecodeString(want)
	if err != nil {
		t.Fatal(err)
	}
	f := parse(t, data)
	actions := make([]float32, 2)
	if err := l.DecodeActions(f, actions); err != nil || actions[0] != 1 || actions[1] != 0 {
		t.Errorf("DecodeActions = %v, %v; want [1 0]", actions, err)
	}
	if eid, ok, err := f.Uint("eid"); eid != 1 || !ok || err != nil || f.ID != 3 || string(f.Type) != TypeStep {
		t.Errorf("t %s id %d eid %d, want step 3 1", f.Type, f.ID, eid)
	}
}
