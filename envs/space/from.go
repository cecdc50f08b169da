package space

import "fmt"

// FromDescription returns the space that d describes, the inverse of [Space.Describe]. An invalid description is an
// error.
func FromDescription(d Description) (Space, error) {
	switch d.Kind {
	case "box":
		return boxFrom(d)
	case "discrete", "multi_discrete", "multi_binary":
		for _, n := range d.N {
			if n < 1 || n > 1<<24 {
				return nil, fmt.Errorf("space: %s of %d values, want 1 to 2^24", d.Kind, n)
			}
		}
		switch {
		case d.Kind == "multi_discrete" && len(d.N) > 0:
			return MultiDiscrete{NVec: d.N}, nil
		case len(d.N) != 1:
			return nil, fmt.Errorf("space: %s with %d numbers", d.Kind, len(d.N))
		case d.Kind == "discrete":
			return Discrete{N: d.N[0]}, nil
		}
		return MultiBinary{N: d.N[0]}, nil
	case "dict":
		return dictFrom(d)
	}
	return nil, fmt.Errorf("space: kind %q, want box, discrete, multi_discrete, multi_binary or dict", d.Kind)
}

// maxSize is the maximum number of elements of a Box from a description.
const maxSize = 1 << 31

func boxFrom(d Description) (Space, error) {
	size := 1
	for _, s := range d.Shape {
		if s < 1 || s > maxSize/size {
			return nil, fmt.Errorf("space: box of shape %v, want positive sides and at most 2^31 elements", d.Shape)
		}
		size *= s
	}
	for _, b := range []Bounds{d.Low, d.High} {
		if len(b) != 1 && len(b) != size {
			return nil, fmt.Errorf("space: box of %d elements with %d bounds, want 1 or one for each", size, len(b))
		}
	}
	b := Box{Low: d.Low, High: d.High, Shape: d.Shape}
	for i := range max(len(b.Low), len(b.High)) {
		if low, high := b.Bounds(i); !(low <= high) {
			return nil, fmt.Errorf("space: box with low %v above high %v", low, high)
		}
	}
	return b, nil
}

func dictFrom(d Description) (Space, error) {
	if len(d.Keys) == 0 || len(d.Keys) != len(d.Parts) {
		return nil, fmt.Errorf("space: dict of %d keys and %d parts", len(d.Keys), len(d.Parts))
	}
	var dict Dict
	for i, key := range d.Keys {
		part, err := FromDescription(d.Parts[i])
		if err != nil {
			return nil, fmt.Errorf("part %q: %w", key, err)
		}
		dict.Fields = append(dict.Fields, Field{Key: key, Space: part})
	}
	return dict, nil
}
