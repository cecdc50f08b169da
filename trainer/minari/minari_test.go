package minari

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/space"
)

// toy and pair are the spaces of testdata/record.py.
var (
	toy  = space.Dict{Fields: []space.Field{{Key: "z", Space: space.NewBox(-1, 1, 2, 2)}, {Key: "a", Space: space.Discrete{N: 3}}}}
	pair = space.MultiDiscrete{NVec: []int{2, 3}}
)

// TestReadsMinari reads what Minari's DataCollector wrote. Expected values: by hand from
// testdata/record.py. The dataset has the keys of the Dict in another order.
func TestReadsMinari(t *testing.T) {
	got, err := Read("testdata/toy-v0", toy, space.Discrete{N: 2})
	if err != nil {
		t.Fatal(err)
	}
	row := func(k int) []float32 {
		x := float32(k) / 4
		return []float32{x, x + 0.0625, x + 0.125, x + 0.1875, float32(k % 3)}
	}
	var want []Episode
	for _, n := range []int{3, 2} {
		var e Episode
		for k := range n + 1 {
			e.Obs, e.Mask = append(e.Obs, row(k)...), append(e.Mask, true, k%2 == 1)
		}
		for k := range n {
			e.Action, e.Reward = append(e.Action, float32(k%2)), append(e.Reward, 0.1*float64(k+1))
			e.Terminated, e.Truncated = append(e.Terminated, k == n-1), append(e.Truncated, false)
		}
		want = append(want, e)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("toy-v0 (-want +got):\n%s", diff)
	}
	got, err = Read("testdata/multi-v0", space.NewBox(float32(math.Inf(-1)), 1, 2), pair)
	if err != nil {
		t.Fatal(err)
	}
	want = []Episode{
		{Obs: []float32{0, 0, 0.125, -0.125, 0.25, -0.25}, Action: []float32{1, 2, 0, 1}, Reward: []float64{0.1, 0.2}, Terminated: []bool{false, false}, Truncated: []bool{false, true}},
		{Obs: []float32{0, 0, 0.125, -0.125}, Action: []float32{1, 0}, Reward: []float64{0.1}, Terminated: []bool{false}, Truncated: []bool{true}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("multi-v0 (-want +got):\n%s", diff)
	}
	m, err := ReadMeta("testdata/toy-v0")
	if diff := cmp.Diff(Meta{ID: "toy-v0", Algorithm: "alternating", Episodes: 2, Steps: 5}, m); err != nil || diff != "" {
		t.Errorf("metadata: %v (-want +got):\n%s", err, diff)
	}
}

// drawn returns n random transitions, some of which end episodes; the last does not.
func drawn(obs, act space.Space, n int, masked bool) replay.Transitions {
	var t replay.Transitions
	rng, size := rand.New(rand.NewPCG(1, 2)), space.MaskSize(act)
	next := make([]float32, obs.Size())
	obs.Sample(rng, nil, next)
	mask := make([]bool, size)
	space.PermitAll(mask)
	for i := range n {
		t.Obs, t.Mask = append(t.Obs, next...), append(t.Mask, mask...)
		action := make([]float32, act.Size())
		act.Sample(rng, mask, action)
		obs.Sample(rng, nil, next)
		if masked {
			for k := range mask {
				mask[k] = k == 0 || rng.IntN(2) == 0
			}
		}
		t.NextObs, t.NextMask = append(t.NextObs, next...), append(t.NextMask, mask...)
		t.Action, t.Reward = append(t.Action, action...), append(t.Reward, rng.NormFloat64())
		t.Terminated, t.Truncated = append(t.Terminated, i%5 == 2), append(t.Truncated, i%7 == 6)
	}
	return t
}

// TestRoundTrip writes and reads transitions of every kind of space. The last step, which ends no
// episode, comes back as truncated.
func TestRoundTrip(t *testing.T) {
	for name, tc := range map[string]struct {
		obs, act space.Space
		masked   bool
	}{
		"dict, masks":    {toy, space.Discrete{N: 4}, true},
		"box actions":    {space.NewBox(-2, 2, 3), space.NewBox(float32(math.Inf(-1)), 1, 2, 2), false},
		"multi-discrete": {space.NewBox(0, 1, 2, 1), pair, true},
		"multi-binary":   {space.MultiBinary{N: 3}, space.MultiBinary{N: 2}, false},
		"scalar box":     {space.Box{Low: []float32{0}, High: []float32{1}}, space.Discrete{N: 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			want := drawn(tc.obs, tc.act, 24, tc.masked)
			folder := filepath.Join(t.TempDir(), "a", "b")
			meta := Meta{ID: "b-v0", Env: "toy/X-v0", EnvKwargs: map[string]any{"nodes": 5.0}, Algorithm: "random"}
			if err := Write(folder, meta, tc.obs, tc.act, Episodes(want, tc.obs, tc.act)); err != nil {
				t.Fatal(err)
			}
			episodes, err := Read(folder, tc.obs, tc.act)
			if err != nil {
				t.Fatal(err)
			}
			got := Transitions(episodes, tc.obs, tc.act)
			want.Truncated[23] = true
			if !tc.masked {
				want.Mask, want.NextMask = nil, nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("transitions (-want +got):\n%s", diff)
			}
			m, err := ReadMeta(folder)
			meta.Episodes, meta.Steps = len(episodes), 24
			if diff := cmp.Diff(meta, m); err != nil || diff != "" {
				t.Errorf("metadata: %v (-want +got):\n%s", err, diff)
			}
			if err := Write(folder, meta, tc.obs, tc.act, Episodes(want, tc.obs, tc.act)); err == nil || !strings.Contains(err.Error(), "exists") {
				t.Errorf("a second Write: %v, want an error that the dataset exists", err)
			}
		})
	}
}

func TestFolder(t *testing.T) {
	t.Setenv("MINARI_DATASETS_PATH", filepath.Join("x", "y"))
	for name, want := range map[string]string{
		"cartpole/mixed-v0": filepath.Join("x", "y", "cartpole", "mixed-v0"), "a-v12": filepath.Join("x", "y", "a-v12"), "./here": "./here", "/there": "/there",
	} {
		if got, err := Folder(name); err != nil || got != want {
			t.Errorf("Folder(%s) = %s, %v, want %s", name, got, err, want)
		}
	}
	for _, name := range []string{"cartpole/mixed", "", "a/../../b-v0", "a b-v0"} {
		if got, err := Folder(name); err == nil {
			t.Errorf("Folder(%q) = %s, want an error", name, got)
		}
	}
}

// TestNamespaces: Minari lists a dataset in a namespace only if the namespace has metadata.
func TestNamespaces(t *testing.T) {
	root := t.TempDir()
	t.Setenv("MINARI_DATASETS_PATH", root)
	obs, act := space.NewBox(0, 1, 2), space.Discrete{N: 2}
	steps := drawn(obs, act, 8, false)
	if err := Write("a/b/c-v0", Meta{ID: "a/b/c-v0"}, obs, act, Episodes(steps, obs, act)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a/namespace_metadata.json", "a/b/namespace_metadata.json"} {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
}

// TestRefuses changes a dataset in one place each.
func TestRefuses(t *testing.T) {
	two := space.Discrete{N: 2}
	for name, tc := range map[string]struct {
		obs, act space.Space
		change   func(m map[string]any, data string)
		want     string
	}{
		"hdf5":          {toy, two, func(m map[string]any, _ string) { m["data_format"] = "hdf5" }, `"hdf5", want "arrow"`},
		"other actions": {toy, space.Discrete{N: 3}, nil, "action space"},
		"other shape":   {space.Dict{Fields: []space.Field{{Key: "z", Space: space.NewBox(-1, 1, 4)}, {Key: "a", Space: space.Discrete{N: 3}}}}, two, nil, "part z"},
		"other keys":    {space.Dict{Fields: []space.Field{{Key: "y", Space: space.NewBox(-1, 1, 2, 2)}, {Key: "a", Space: space.Discrete{N: 3}}}}, two, nil, "observation space"},
		"a start": {toy, two, func(m map[string]any, _ string) {
			m["action_space"] = `{"type":"Discrete","dtype":"int64","start":1,"n":2}`
		}, "action space"},
		"no spaces, lists of another size": {space.Dict{Fields: []space.Field{{Key: "z", Space: space.NewBox(-1, 1, 3)}, {Key: "a", Space: space.Discrete{N: 3}}}}, two,
			func(m map[string]any, _ string) { delete(m, "observation_space") }, "lists of 4 numbers, want 3"},
		"steps":      {toy, two, func(m map[string]any, _ string) { m["total_steps"] = 6 }, "5 steps, and the metadata 6"},
		"episodes":   {toy, two, func(m map[string]any, _ string) { m["total_episodes"] = 3 }, "no such file"},
		"no episode": {toy, two, func(m map[string]any, _ string) { m["total_episodes"] = 0 }, "want at least 1"},
		"cut": {toy, two, func(_ map[string]any, data string) {
			if err := os.Truncate(filepath.Join(data, "1", "part-0.arrow"), 700); err != nil {
				panic(err)
			}
		}, "no file of the Arrow IPC format"},
		"no file": {toy, two, func(_ map[string]any, data string) {
			if err := os.Remove(filepath.Join(data, "0", "part-0.arrow")); err != nil {
				panic(err)
			}
		}, "no file *.arrow"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.CopyFS(folder, os.DirFS("testdata/toy-v0")); err != nil {
				t.Fatal(err)
			}
			if tc.change != nil {
				path := filepath.Join(folder, "data", metadataName)
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				var m map[string]any
				if err := json.Unmarshal(text, &m); err != nil {
					t.Fatal(err)
				}
				tc.change(m, filepath.Dir(path))
				if text, err = json.Marshal(m); err != nil {
					t.Fatal(err)
				}
				envstest.Write(t, path, string(text))
			}
			if _, err := Read(folder, tc.obs, tc.act); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want an error with %q", err, tc.want)
			}
		})
	}
}

// TestLongEpisode: one of 131,072 steps has more rows than Minari reads.
func TestLongEpisode(t *testing.T) {
	obs, act, n := space.NewBox(0, 1, 1), space.Discrete{N: 2}, maxRows
	e := Episode{Obs: make([]float32, n+1), Action: make([]float32, n), Reward: make([]float64, n), Terminated: make([]bool, n), Truncated: make([]bool, n)}
	e.Terminated[n-1] = true
	if err := Write(t.TempDir()+"/d", Meta{ID: "d-v0"}, obs, act, []Episode{e}); err == nil || !strings.Contains(err.Error(), "at most 131071") {
		t.Errorf("Write: %v", err)
	}
	var buf bytes.Buffer
	if err := writeEpisode(&buf, e, obs, act); err != nil {
		t.Fatal(err)
	}
	if _, err := readEpisode(bytes.NewReader(buf.Bytes()), obs, act); err == nil || !strings.Contains(err.Error(), "at most 131072") {
		t.Errorf("readEpisode: %v", err)
	}
}

// TestDamagedEpisodes: of files with damaged bytes, each is an error or an episode. Without the checks before the Arrow
// library reads them, some ask for all memory, and others never end.
func TestDamagedEpisodes(t *testing.T) {
	text, err := os.ReadFile("testdata/toy-v0/data/0/part-0.arrow")
	if err != nil {
		t.Fatal(err)
	}
	rng, refused := rand.New(rand.NewPCG(1, 2)), 0
	for range 5000 {
		damaged := bytes.Clone(text)
		for range 1 + rng.IntN(3) {
			damaged[rng.IntN(len(damaged))] = byte(rng.IntN(256))
		}
		if _, err := readEpisode(bytes.NewReader(damaged), toy, space.Discrete{N: 2}); err != nil {
			refused++
		}
	}
	if refused < 1000 { // the rest have other numbers, or padding
		t.Errorf("%d of 5000 damaged files are refused", refused)
	}
}

// TestClaims: numbers of a file that say more than its bytes hold are errors by name.
func TestClaims(t *testing.T) {
	text, err := os.ReadFile("testdata/toy-v0/data/0/part-0.arrow")
	if err != nil {
		t.Fatal(err)
	}
	number, short := binary.LittleEndian.Uint64, binary.LittleEndian.Uint32
	footerAt := len(text) - 10 - int(short(text[len(text)-10:]))
	f := verifier{text[footerAt : len(text)-10], len(text)}
	blocks, _ := f.vector(f.start(), footerBatches)
	schema, _ := f.reference(f.start(), 1)
	fields, _ := f.vector(schema, 1)
	block := footerAt + blocks
	messageAt := int(number(text[block:])) + 8
	m := verifier{text[messageAt:], len(text)}
	batch, _ := m.reference(m.start(), messageHeader)
	rows, _ := m.field(batch, batchLength)
	nodes, _ := m.vector(batch, batchNodes)
	buffers, n := m.vector(batch, batchBuffers)
	for _, tc := range []struct {
		name, want string
		at         int
		value      uint64
	}{
		{"rows", "rows, want at most", messageAt + rows, maxRows + 1},
		{"negative rows", "rows, want at most", messageAt + rows, 1 << 63},
		{"values", "values in", messageAt + nodes, 1 << 40},
		{"buffer's place", "not in the body", messageAt + buffers + 16*(n-1), 1 << 40},
		{"buffer's length", "not in the body", messageAt + buffers + 16*(n-1) + 8, 1 << 40},
		{"batch's place", "not in the file", block, uint64(len(text))},
		{"batch's header", "not in the file", block + 8, uint64(len(text))},
		{"batch's body", "not in the file", block + 16, uint64(len(text))},
		{"columns", "more elements", footerAt + fields - 4, 1 << 28},
		{"batches", "more elements", footerAt + blocks - 4, 1 << 28},
		{"footer", "a footer of", len(text) - 10, 1 << 30},
	} {
		damaged := bytes.Clone(text)
		if tc.value>>32 == 0 {
			binary.LittleEndian.PutUint32(damaged[tc.at:], uint32(tc.value))
		} else {
			binary.LittleEndian.PutUint64(damaged[tc.at:], tc.value)
		}
		if err := verify(bytes.NewReader(damaged), int64(len(damaged))); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestCompressed: columns that are compressed could grow without a bound, and are refused; Minari writes none.
func TestCompressed(t *testing.T) {
	text, err := os.ReadFile("testdata/toy-v0/data/0/part-0.arrow")
	if err != nil {
		t.Fatal(err)
	}
	in, err := ipc.NewFileReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	out, err := ipc.NewFileWriter(&packed, ipc.WithSchema(in.Schema()), ipc.WithLZ4())
	if err != nil {
		t.Fatal(err)
	}
	batch, err := in.Read()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(out.Write(batch), out.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := readEpisode(bytes.NewReader(packed.Bytes()), toy, space.Discrete{N: 2}); err == nil || !strings.Contains(err.Error(), "compressed") {
		t.Errorf("error %v, want one that says compressed", err)
	}
}

// FuzzReadEpisode: a file is an error or an episode whose parts fit each other.
func FuzzReadEpisode(f *testing.F) {
	for _, path := range []string{"testdata/toy-v0/data/0/part-0.arrow", "testdata/multi-v0/data/0/part-0.arrow"} {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(text[:len(text)/2])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := readEpisode(bytes.NewReader(text), toy, space.Discrete{N: 2})
		if err != nil {
			return
		}
		if n := len(e.Reward); n < 1 || len(e.Action) != n || len(e.Obs) != 5*(n+1) || e.Mask != nil && len(e.Mask) != 2*(n+1) {
			t.Fatalf("%d rewards, %d actions, %d numbers in observations, %d in masks", n, len(e.Action), len(e.Obs), len(e.Mask))
		}
	})
}
