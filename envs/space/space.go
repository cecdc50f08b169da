// Package space describes observations and actions.
//
// A value of any space is a flat []float32 in row-major order; integers up to 2^24 are exact. A Dict lays out its parts
// in the order of its keys. Clients rebuild the shaped and typed value from the space's [Description], so only the flat
// values are sent.
package space

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// A Space is the set of values that an observation or an action may take.
type Space interface {
	// Size returns the number of float32 elements in a value.
	Size() int

	// Contains reports whether v is in the space. A v of another length is not.
	Contains(v []float32) bool

	// Sample writes a random element to dst, of length Size. If mask is not nil, it has
	// length [MaskSize] and Sample draws only from the actions that mask permits; a part of
	// which mask permits nothing is drawn as if unmasked.
	Sample(rng *rand.Rand, mask []bool, dst []float32)

	// Describe returns the description, from which a client builds the same Gymnasium space.
	Describe() Description
}

// Description is a space as data, from which a client builds its own.
type Description struct {
	Kind  string        `json:"kind"` // "box", "discrete", "multi_discrete", "multi_binary" or "dict"
	Shape []int         `json:"shape,omitempty"`
	DType string        `json:"dtype,omitempty"` // NumPy's name of the dtype of a value
	Low   Bounds        `json:"low,omitempty"`   // box: one bound, or one for each element
	High  Bounds        `json:"high,omitempty"`  // box: likewise
	N     []int         `json:"n,omitempty"`     // discrete: one number; multi_discrete: one for each element
	Keys  []string      `json:"keys,omitempty"`  // dict: in layout order
	Parts []Description `json:"parts,omitempty"` // dict: one for each key
}

// Bounds are bounds of a [Box]. In JSON, which has no infinity, an infinite one is the string
// "inf" or "-inf".
type Bounds []float32

// MarshalJSON implements json.Marshaler.
func (b Bounds) MarshalJSON() ([]byte, error) {
	values := make([]any, len(b))
	for i, x := range b {
		switch {
		case math.IsInf(float64(x), 1):
			values[i] = "inf"
		case math.IsInf(float64(x), -1):
			values[i] = "-inf"
		default:
			values[i] = x
		}
	}
	return json.Marshal(values)
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *Bounds) UnmarshalJSON(data []byte) error {
	var values []any
	if err := json.Unmarshal(data, &values); err != nil {
		return err
	}
	*b = make(Bounds, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case float64:
			(*b)[i] = float32(v)
		case string:
			if v != "inf" && v != "-inf" {
				return fmt.Errorf("space: bound %q, want a number, \"inf\" or \"-inf\"", v)
			}
			sign := 1
			if v[0] == '-' {
				sign = -1
			}
			(*b)[i] = float32(math.Inf(sign))
		default:
			return fmt.Errorf("space: bound %v, want a number, \"inf\" or \"-inf\"", v)
		}
	}
	return nil
}

// PermitAll permits every action.
func PermitAll(mask []bool) {
	for i := range mask {
		mask[i] = true
	}
}

// MaskSize returns the length of an action mask over act: n for Discrete(n), the sum of the
// numbers of a MultiDiscrete, twice the size of a MultiBinary (0 and 1 of each element, as
// sb3-contrib lays them out), and 0 for a space that has no mask.
func MaskSize(act Space) int {
	switch a := act.(type) {
	case Discrete:
		return a.N
	case MultiDiscrete:
		n := 0
		for _, k := range a.NVec {
			n += k
		}
		return n
	case MultiBinary:
		return 2 * a.N
	}
	return 0
}

// ActionText returns an action for messages: a number, or several in brackets.
func ActionText(action []float32) string {
	if len(action) == 1 {
		return fmt.Sprint(action[0])
	}
	return fmt.Sprint(action)
}

// Masked reports whether mask, of length MaskSize(act) or nil, permits action, which must be
// in act. A nil or empty mask permits everything.
func Masked(act Space, action []float32, mask []bool) bool {
	if len(mask) == 0 {
		return true
	}
	switch a := act.(type) {
	case Discrete:
		return mask[int(action[0])]
	case MultiDiscrete:
		off := 0
		for i, n := range a.NVec {
			if !mask[off+int(action[i])] {
				return false
			}
			off += n
		}
	case MultiBinary:
		for i := range a.N {
			if !mask[2*i+int(action[i])] {
				return false
			}
		}
	}
	return true
}

// Box is the set of arrays of Shape whose elements lie between Low and High, bounds included.
type Box struct {
	Low, High []float32 // one bound for all elements, or one for each in row-major order
	Shape     []int
}

// NewBox returns the Box of arrays of shape with the same bounds for each element.
// It panics if low > high or a side of shape is not positive.
func NewBox(low, high float32, shape ...int) Box {
	if !(low <= high) {
		panic(fmt.Sprintf("space: box with low %v above high %v", low, high))
	}
	for _, s := range shape {
		if s <= 0 {
			panic(fmt.Sprintf("space: box of shape %v", shape))
		}
	}
	return Box{Low: []float32{low}, High: []float32{high}, Shape: slices.Clone(shape)}
}

// Size implements [Space].
func (b Box) Size() int { return product(b.Shape) }

// Bounds returns the bounds of element i.
func (b Box) Bounds(i int) (low, high float32) {
	low, high = b.Low[0], b.High[0]
	if len(b.Low) > 1 {
		low = b.Low[i]
	}
	if len(b.High) > 1 {
		high = b.High[i]
	}
	return low, high
}

// Contains implements [Space]. A NaN is in no Box.
func (b Box) Contains(v []float32) bool {
	if len(v) != b.Size() {
		return false
	}
	for i, x := range v {
		low, high := b.Bounds(i)
		if !(x >= low && x <= high) {
			return false
		}
	}
	return true
}

// Sample implements [Space]: uniform if both bounds are finite, exponential from the bound if one is, normal if none
// is, as Gymnasium's Box does. It ignores the mask.
func (b Box) Sample(rng *rand.Rand, _ []bool, dst []float32) {
	for i := range dst {
		low, high := b.Bounds(i)
		lo, hi := !math.IsInf(float64(low), 0), !math.IsInf(float64(high), 0)
		switch {
		case lo && hi:
			// In float64: the width of a box of float32 may exceed the range of float32.
			width := float64(high) - float64(low)
			dst[i] = min(high, float32(float64(low)+float64(width*float64(rng.Float32()))))
		case lo:
			dst[i] = low + float32(rng.ExpFloat64())
		case hi:
			dst[i] = high - float32(rng.ExpFloat64())
		default:
			dst[i] = float32(rng.NormFloat64())
		}
	}
}

// String implements [fmt.Stringer].
func (b Box) String() string { return fmt.Sprintf("Box(%v, %v, %v)", b.Low, b.High, b.Shape) }

// Describe implements [Space].
func (b Box) Describe() Description {
	return Description{Kind: "box", Shape: b.Shape, DType: "float32", Low: b.Low, High: b.High}
}

// Discrete is the set of integers 0 … N-1.
type Discrete struct{ N int }

// Size implements [Space].
func (d Discrete) Size() int { return 1 }

// Contains implements [Space].
func (d Discrete) Contains(v []float32) bool { return len(v) == 1 && isIndex(v[0], d.N) }

// Sample implements [Space].
func (d Discrete) Sample(rng *rand.Rand, mask []bool, dst []float32) {
	dst[0] = float32(sampleIndex(rng, d.N, mask))
}

// String implements [fmt.Stringer].
func (d Discrete) String() string { return fmt.Sprintf("Discrete(%d)", d.N) }

// Describe implements [Space].
func (d Discrete) Describe() Description {
	return Description{Kind: "discrete", DType: "int64", N: []int{d.N}}
}

// MultiDiscrete is the set of vectors whose element i is an integer in 0 … NVec[i]-1.
type MultiDiscrete struct{ NVec []int }

// Size implements [Space].
func (m MultiDiscrete) Size() int { return len(m.NVec) }

// Contains implements [Space].
func (m MultiDiscrete) Contains(v []float32) bool {
	if len(v) != len(m.NVec) {
		return false
	}
	for i, n := range m.NVec {
		if !isIndex(v[i], n) {
			return false
		}
	}
	return true
}

// Sample implements [Space].
func (m MultiDiscrete) Sample(rng *rand.Rand, mask []bool, dst []float32) {
	off := 0
	for i, n := range m.NVec {
		var part []bool
		if len(mask) > 0 {
			part = mask[off : off+n]
		}
		dst[i] = float32(sampleIndex(rng, n, part))
		off += n
	}
}

// String implements [fmt.Stringer].
func (m MultiDiscrete) String() string { return fmt.Sprintf("MultiDiscrete(%v)", m.NVec) }

// Describe implements [Space].
func (m MultiDiscrete) Describe() Description {
	return Description{Kind: "multi_discrete", Shape: []int{len(m.NVec)}, DType: "int64", N: m.NVec}
}

// MultiBinary is the set of vectors of N zeros and ones.
type MultiBinary struct{ N int }

// Size implements [Space].
func (m MultiBinary) Size() int { return m.N }

// Contains implements [Space].
func (m MultiBinary) Contains(v []float32) bool {
	if len(v) != m.N {
		return false
	}
	for _, x := range v {
		if x != 0 && x != 1 {
			return false
		}
	}
	return true
}

// Sample implements [Space].
func (m MultiBinary) Sample(rng *rand.Rand, mask []bool, dst []float32) {
	for i := range dst {
		var part []bool
		if len(mask) > 0 {
			part = mask[2*i : 2*i+2]
		}
		dst[i] = float32(sampleIndex(rng, 2, part))
	}
}

// String implements [fmt.Stringer].
func (m MultiBinary) String() string { return fmt.Sprintf("MultiBinary(%d)", m.N) }

// Describe implements [Space].
func (m MultiBinary) Describe() Description {
	return Description{Kind: "multi_binary", Shape: []int{m.N}, DType: "int8", N: []int{m.N}}
}

// Field is one named part of a [Dict].
type Field struct {
	Key   string
	Space Space
}

// Dict is a set of named values, laid out one after the other in the order of its fields.
type Dict struct{ Fields []Field }

// Size implements [Space].
func (d Dict) Size() int {
	n := 0
	for _, f := range d.Fields {
		n += f.Space.Size()
	}
	return n
}

// Contains implements [Space].
func (d Dict) Contains(v []float32) bool {
	if len(v) != d.Size() {
		return false
	}
	for _, f := range d.Fields {
		n := f.Space.Size()
		if !f.Space.Contains(v[:n]) {
			return false
		}
		v = v[n:]
	}
	return true
}

// Sample implements [Space]. It ignores the mask: a Dict of actions has none.
func (d Dict) Sample(rng *rand.Rand, _ []bool, dst []float32) {
	for _, f := range d.Fields {
		n := f.Space.Size()
		f.Space.Sample(rng, nil, dst[:n])
		dst = dst[n:]
	}
}

// Describe implements [Space].
func (d Dict) Describe() Description {
	desc := Description{Kind: "dict"}
	for _, f := range d.Fields {
		desc.Keys = append(desc.Keys, f.Key)
		desc.Parts = append(desc.Parts, f.Space.Describe())
	}
	return desc
}

func product(shape []int) int {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return n
}

func isIndex(x float32, n int) bool { return x >= 0 && x < float32(n) && x == float32(int(x)) }

// sampleIndex draws one of the indices below n that mask permits, or of all indices if it permits none.
func sampleIndex(rng *rand.Rand, n int, mask []bool) int {
	permitted := 0
	for _, ok := range mask {
		if ok {
			permitted++
		}
	}
	if permitted == 0 {
		return rng.IntN(n)
	}
	k := rng.IntN(permitted)
	for i, ok := range mask {
		if ok {
			if k == 0 {
				return i
			}
			k--
		}
	}
	panic("unreachable: k is below the number of permitted indices")
}
