package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

var testSpec = ActorCritic(3, 2, []int{4}, Tanh)

func testParams(seed uint64) []Param {
	params := NewParams(testSpec)
	Init(params, testSpec, rand.New(rand.NewPCG(seed, 0)))
	return params
}

func testFile() File {
	f := File{Meta: Checkpoint{
		Algo: "ppo", Env: "k8s/Gang-v0", EnvKwargs: json.RawMessage(`{"nodes":16}`),
		ObservationSpace: "Box(3)", ActionSpace: "Discrete(2)", Spec: testSpec,
		Seed: 1<<64 - 1, Timesteps: 1 << 60,
		Config: json.RawMessage(`{"gamma":0.99}`), State: json.RawMessage(`{"n":1}`),
		Metadata: map[string]string{"note": "x"},
	}}
	params := testParams(1)
	f.PutParams(params)
	for _, p := range params {
		f.PutState("optimizer.exp_avg.", p, p.Value)
	}
	f.Put(safetensors.Tensor{Name: "state.rng", Shape: []int{3}, Data: []uint8{1, 2, 3}})
	return f
}

func encode(t *testing.T, f File) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := Write(&buf, f); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestCheckpointRoundTrip(t *testing.T) {
	want := testFile()
	b := encode(t, want)
	if !bytes.Equal(b, encode(t, testFile())) {
		t.Error("equal files give other bytes")
	}
	got, err := Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	want.Meta.Format = Format
	if diff := cmp.Diff(want.Meta, got.Meta); diff != "" {
		t.Errorf("meta (-want +got):\n%s", diff)
	}
	for _, w := range want.Tensors {
		g, err := got.Tensor(w.Name)
		if diff := cmp.Diff(w, g); err != nil || diff != "" {
			t.Errorf("tensor %s: %v (-want +got):\n%s", w.Name, err, diff)
		}
	}
	params, exp := testParams(2), testParams(1)
	if err := got.Params(params); err != nil {
		t.Fatal(err)
	}
	for i, p := range params {
		avg := make([]float32, len(p.Value))
		if err := got.State("optimizer.exp_avg.", p, avg); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(p.Value, exp[i].Value) || !slices.Equal(avg, exp[i].Value) {
			t.Errorf("%s = %v and its average %v, want %v", p.Name, p.Value, avg, exp[i].Value)
		}
	}
}

// PyTorch multiplies by the transpose of its (outputs, inputs): the element that leads from
// input i to output j is [i, j] in memory and [j, i] in the file.
func TestTorchLayout(t *testing.T) {
	p := Param{Name: "w", Shape: []int{2, 3}, Value: []float32{11, 12, 13, 21, 22, 23}}
	var f File
	f.PutParams([]Param{p})
	want := safetensors.Tensor{Name: "w", Shape: []int{3, 2}, Data: []float32{11, 21, 12, 22, 13, 23}}
	if diff := cmp.Diff(want, f.Tensors[0]); diff != "" {
		t.Errorf("tensor (-want +got):\n%s", diff)
	}
}

func TestMatch(t *testing.T) {
	c := testFile().Meta
	for name, tt := range map[string]struct {
		want    Checkpoint
		message string // empty: matches
	}{
		"nothing asked": {Checkpoint{}, ""},
		"itself":        {c, ""},
		"algorithm":     {Checkpoint{Algo: "dqn"}, `algorithm is "ppo", want "dqn"`},
		"environment":   {Checkpoint{Env: "k8s/VPA-v0"}, "environment"},
		"observation":   {Checkpoint{ObservationSpace: "Box(4)"}, `observation space is "Box(3)", want "Box(4)"`},
		"action":        {Checkpoint{ActionSpace: "Discrete(3)"}, "action space"},
		"network":       {Checkpoint{Spec: ActorCritic(3, 2, []int{5}, Tanh)}, "network"},
	} {
		err := c.Match(tt.want)
		if tt.message == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if tt.message != "" && (!errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), tt.message)) {
			t.Errorf("%s: %v, want %q", name, err, tt.message)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	write := func(meta map[string]string) []byte {
		var buf bytes.Buffer
		if err := safetensors.Write(&buf, nil, meta); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	meta := func(text string) []byte { return write(map[string]string{metadataKey: text}) }
	whole := encode(t, testFile())
	for name, tt := range map[string]struct {
		file []byte
		want error
		text string
	}{
		"truncated":      {whole[:len(whole)-1], safetensors.ErrCorrupt, "truncated"},
		"not ours":       {write(nil), ErrFormat, "metadata"},
		"newer":          {meta(fmt.Sprintf(`{"format":%d,"algo":[]}`, Format+1)), ErrFormat, "format 3, want 1 to 2"},
		"no format":      {meta(`{}`), ErrFormat, "format 0"},
		"no JSON":        {meta(`x`), ErrFormat, "invalid character"},
		"other JSON":     {meta(`{"format":1,"algo":1}`), ErrFormat, "algo"},
		"no network":     {meta(`{"format":1}`), ErrSpec, "inputs"},
		"a huge network": {meta(`{"format":1,"spec":{"inputs":1e18}}`), ErrFormat, "inputs"},
	} {
		if _, err := Read(bytes.NewReader(tt.file)); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %v with %q", name, err, tt.want, tt.text)
		}
	}
}

// TestDamagedCheckpoint: any one byte of a checkpoint changed is noticed, wherever it is.
func TestDamagedCheckpoint(t *testing.T) {
	b := encode(t, testFile())
	for i := range b {
		c := slices.Clone(b)
		c[i] ^= 1
		if _, err := Read(bytes.NewReader(c)); !errors.Is(err, safetensors.ErrCorrupt) && !errors.Is(err, ErrFormat) {
			t.Errorf("byte %d of %d changed: %v, want %v or %v", i, len(b), err, safetensors.ErrCorrupt, ErrFormat)
		}
	}
	changed := bytes.Replace(b, []byte("tanh"), []byte("relu"), 1)
	if bytes.Equal(b, changed) {
		t.Fatal("no tanh in the header")
	}
	if _, err := Read(bytes.NewReader(changed)); !errors.Is(err, safetensors.ErrCorrupt) || !strings.Contains(err.Error(), "altered") {
		t.Errorf("relu in place of tanh: %v, want %v", err, safetensors.ErrCorrupt)
	}
}

// TestFormat1 reads a model of an earlier version, whose digest covers its tensors only.
func TestFormat1(t *testing.T) {
	f, err := ReadFile("testdata/format1.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if f.Meta.Format != 1 || f.Meta.Algo != "dqn" || f.Meta.Timesteps != 75008 {
		t.Errorf("format %d, algorithm %q, %d timesteps; want 1, dqn and 75008", f.Meta.Format, f.Meta.Algo, f.Meta.Timesteps)
	}
	params := NewParams(f.Meta.Spec)
	if err := f.Params(params); err != nil {
		t.Fatal(err)
	}
	b := encode(t, f)
	again, err := Read(bytes.NewReader(b))
	if err != nil || again.Meta.Format != Format {
		t.Errorf("written again: format %d, %v; want %d", again.Meta.Format, err, Format)
	}
	if diff := cmp.Diff(f.Tensors, again.Tensors); diff != "" {
		t.Errorf("tensors (-read +written and read):\n%s", diff)
	}
}

func TestParamsRefuses(t *testing.T) {
	for name, change := range map[string]func(*File){
		"missing":     func(f *File) { f.Tensors = f.Tensors[1:] },
		"other type":  func(f *File) { f.Tensors[0].Data = make([]float64, 12) },
		"other shape": func(f *File) { f.Tensors[0].Shape = []int{3, 4} }, // transposed
		"more layers": func(f *File) {
			f.Put(safetensors.Tensor{Name: "mlp_extractor.policy_net.2.bias", Shape: []int{4}, Data: make([]float32, 4)})
		},
	} {
		f := testFile()
		change(&f)
		params, before := testParams(2), testParams(2)
		if err := f.Params(params); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: %v, want %v", name, err, ErrMismatch)
		}
		if diff := cmp.Diff(before, params); diff != "" {
			t.Errorf("%s: parameters were changed", name)
		}
	}
}

func TestWriteReadParams(t *testing.T) {
	var buf bytes.Buffer
	n, err := WriteParams(&buf, testParams(1))
	if err != nil || n != int64(buf.Len()) {
		t.Fatalf("WriteParams = %d, %v, wrote %d bytes", n, err, buf.Len())
	}
	for name, file := range map[string][]byte{"parameters": buf.Bytes(), "checkpoint": encode(t, testFile())} {
		got := testParams(2)
		if n, err := ReadParams(bytes.NewReader(file), got); err != nil || n != int64(len(file)) {
			t.Errorf("%s: ReadParams = %d, %v, want %d", name, n, err, len(file))
		}
		if diff := cmp.Diff(testParams(1), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	first := testFile()
	if err := WriteFile(path, first); err != nil {
		t.Fatal(err)
	}
	second := testFile()
	second.Meta.Timesteps = 7
	if err := WriteFile(path, second); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("Stat = %v, %v, want mode 0644", info, err)
	}
	// A write that ends early leaves the old file and no other.
	err = WriteFileAtomic(path, func(w io.Writer) error {
		if _, err := w.Write([]byte("half")); err != nil {
			return err
		}
		return io.ErrUnexpectedEOF
	})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("WriteFileAtomic = %v, want %v", err, io.ErrUnexpectedEOF)
	}
	got, err := ReadFile(path)
	if err != nil || got.Meta.Timesteps != 7 {
		t.Errorf("ReadFile = %+v, %v, want the second file", got.Meta, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("folder holds %v, %v, want one file", entries, err)
	}
	if err := os.Truncate(path, info.Size()-1); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); !errors.Is(err, safetensors.ErrCorrupt) || !strings.Contains(err.Error(), path) {
		t.Errorf("ReadFile of a truncated file: %v, want %v with the path", err, safetensors.ErrCorrupt)
	}
	// A link is followed; a folder, like whatever is no regular file, is not replaced.
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, first); err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(link); err != nil || target != path {
		t.Errorf("Readlink = %q, %v, want %q", target, err, path)
	}
	if got, err := ReadFile(path); err != nil || got.Meta.Timesteps != first.Meta.Timesteps {
		t.Errorf("ReadFile = %+v, %v, want the first file", got.Meta, err)
	}
	for _, link := range [][2]string{{"later.1", "later.2"}, {"later.2", "later.3"}, {"circle", "circle"}} { // to no file yet
		if err := os.Symlink(link[1], filepath.Join(dir, link[0])); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteFile(filepath.Join(dir, "later.1"), first); err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(filepath.Join(dir, "later.1")); err != nil || target != "later.2" {
		t.Errorf("Readlink = %q, %v, want later.2", target, err)
	}
	if info, err := os.Lstat(filepath.Join(dir, "later.3")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the end of links to no file yet is %v, %v, want the file", info, err)
	}
	if err := WriteFile(filepath.Join(dir, "circle"), first); err != nil {
		t.Errorf("WriteFile to a circle of links: %v", err)
	}
	if err := WriteFile(dir, first); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("WriteFile to a folder: %v", err)
	}
	if err := WriteFile(os.DevNull, first); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("WriteFile to a device: %v", err)
	}
	if err := WriteFile(filepath.Join(dir, "none", "x"), first); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("WriteFile to no folder: %v, want %v", err, os.ErrNotExist)
	}
}

// TestWeightsThatAreNotFinite: a file whose digest is right and whose weights are not finite is refused, and the tensor named.
func TestWeightsThatAreNotFinite(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		f := testFile()
		for _, tensor := range f.Tensors {
			data, ok := tensor.Data.([]float32)
			if !ok {
				continue
			}
			old := data[len(data)-1]
			data[len(data)-1] = bad
			if _, err := Read(bytes.NewReader(encode(t, f))); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tensor.Name) {
				t.Errorf("%v in %s: %v, want %v with the name", bad, tensor.Name, err, ErrFormat)
			}
			data[len(data)-1] = old
		}
	}
}

// TestSweepTemporary removes what a killed WriteFileAtomic left, and nothing else.
func TestSweepTemporary(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run[1]") // as a pattern, it would not match itself
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".model.safetensors.123.tmp", "model.safetensors", "notes.tmp", ".hidden"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := SweepTemporary(dir); err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{".hidden", "model.safetensors", "notes.tmp"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left are %v, %v; want %v", left, err, want)
	}
}

// TestReadFileRefusesPipes: to open a pipe without a writer would block for ever.
func TestReadFileRefusesPipes(t *testing.T) {
	if _, err := ReadFile("/dev/zero"); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("ReadFile(/dev/zero) = %v", err)
	}
}
