package wire

import (
	"math"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs/space"
)

// The bounds of a space may be numbers of any kind and width, as servers in other languages write them.
func TestBoundsOfAnyWidth(t *testing.T) {
	for name, values := range map[string][]any{
		"float32":  {float32(-4.8), float32(2), float32(math.Inf(1))},
		"float64":  {-4.800000190734863, 2.0, math.Inf(1)},
		"integers": {-4.800000190734863, 2, float32(math.Inf(1))},
	} {
		w := NewWriter()
		message := map[string]any{"t": "make.ok", "id": 1, "obs_space": map[string]any{
			"kind": "dict", "keys": []string{"a"}, "parts": []any{map[string]any{"kind": "box", "dtype": "float32", "shape": []int{3}, "low": values}},
		}}
		if err := w.Encode(message); err != nil {
			t.Fatal(err)
		}
		var f Frame
		if err := f.Parse(w.Bytes(), DefaultBounds); err != nil {
			t.Fatal(err)
		}
		var r MakeReply
		if err := f.Decode(&r); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, want := r.ObsSpace.Parts[0].Low, (space.Bounds{-4.8, 2, float32(math.Inf(1))}); !slices.Equal(got, want) {
			t.Errorf("%s: bounds %v, want %v", name, got, want)
		}
	}
	w := NewWriter()
	if err := w.Encode(map[string]any{"t": "make.ok", "id": 1, "act_space": map[string]any{"kind": "box", "low": []any{"x"}}}); err != nil {
		t.Fatal(err)
	}
	var f Frame
	if err := f.Parse(w.Bytes(), DefaultBounds); err != nil {
		t.Fatal(err)
	}
	if err := f.Decode(&MakeReply{}); err == nil {
		t.Error("a bound that is text: no error")
	}
}
