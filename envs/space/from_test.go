package space_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/envs/space"
)

// decode returns the space of a description in JSON.
func decode(text []byte) (space.Space, error) {
	var d space.Description
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	return space.FromDescription(d)
}

func TestFromDescriptionInvertsDescribe(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    space.Space
	}{
		{"box", space.NewBox(-1, 2.5, 2, 3)},
		{"scalar box", space.Box{Low: []float32{0}, High: []float32{1}}},
		{"unbounded box", space.NewBox(-inf, inf, 4)},
		{"per element", perElement},
		{"one low, many high", space.Box{Low: []float32{0}, High: []float32{1, 2}, Shape: []int{2}}},
		{"discrete", space.Discrete{N: 4}},
		{"multi_discrete", space.MultiDiscrete{NVec: []int{2, 3}}},
		{"multi_discrete of one", space.MultiDiscrete{NVec: []int{2}}},
		{"multi_binary", space.MultiBinary{N: 3}},
		{"dict", dict},
		{"dict in a dict", space.Dict{Fields: []space.Field{{Key: "a", Space: dict}, {Key: "b", Space: space.Discrete{N: 2}}}}},
	} {
		text, err := json.Marshal(tc.s.Describe())
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(text)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		} else if diff := cmp.Diff(tc.s, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestFromDescriptionErrors(t *testing.T) {
	for _, text := range []string{
		`{}`,
		`{"kind":"graph"}`,
		`{"kind":"box","shape":[2]}`,
		`{"kind":"box","shape":[2],"low":[0],"high":[1,2,3]}`,
		`{"kind":"box","shape":[0],"low":[0],"high":[1]}`,
		`{"kind":"box","shape":[-1],"low":[0],"high":[1]}`,
		`{"kind":"box","shape":[65536,65536],"low":[0],"high":[1]}`,
		`{"kind":"box","shape":[4294967296,4294967296],"low":[0],"high":[1]}`, // the product overflows to 0
		`{"kind":"box","shape":[1],"low":[1],"high":[0]}`,
		`{"kind":"box","shape":[2],"low":[0,5],"high":[1]}`,
		`{"kind":"box","shape":[1],"low":["nan"],"high":[1]}`,
		`{"kind":"box","shape":[1],"low":[null],"high":[1]}`,
		`{"kind":"box","shape":[1],"low":0,"high":[1]}`,
		`{"kind":"discrete"}`,
		`{"kind":"discrete","n":[0]}`,
		`{"kind":"discrete","n":[-3]}`,
		`{"kind":"discrete","n":[16777217]}`, // 2^24 + 1
		`{"kind":"discrete","n":[2,3]}`,
		`{"kind":"multi_discrete"}`,
		`{"kind":"multi_discrete","n":[2,0]}`,
		`{"kind":"multi_binary","n":[]}`,
		`{"kind":"dict"}`,
		`{"kind":"dict","keys":["a"]}`,
		`{"kind":"dict","keys":["a"],"parts":[{"kind":"discrete","n":[0]}]}`,
	} {
		if s, err := decode([]byte(text)); err == nil {
			t.Errorf("%s gives %#v, want an error", text, s)
		}
	}
}

// FuzzFromDescription: whatever is accepted describes itself as what was given, up to what JSON
// leaves open.
func FuzzFromDescription(f *testing.F) {
	for _, s := range []space.Space{perElement, space.NewBox(0, 1, 2, 3), space.Discrete{N: 4}, space.MultiDiscrete{NVec: []int{2, 3}}, space.MultiBinary{N: 3}, dict} {
		text, err := json.Marshal(s.Describe())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := decode(text)
		if err != nil {
			return
		}
		if s.Size() < 1 {
			t.Fatalf("space of size %d", s.Size())
		}
		again, err := json.Marshal(s.Describe())
		if err != nil {
			t.Fatal(err)
		}
		back, err := decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.Describe(), back.Describe(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-first +again):\n%s", diff)
		}
	})
}
