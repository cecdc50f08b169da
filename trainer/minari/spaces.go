package minari

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernasium/kubernasium/envs/space"
)

// gymSpace is a space as in Minari's metadata. It omits bounds of a Box, which may be NumPy's infinities.
type gymSpace struct {
	Type      string                     `json:"type"`
	Shape     []int                      `json:"shape"`
	N         json.RawMessage            `json:"n"`
	Start     json.RawMessage            `json:"start"`
	NVec      json.RawMessage            `json:"nvec"`
	Subspaces json.RawMessage            `json:"subspaces"`
	parts     map[string]json.RawMessage // of a Dict
}

// serialize returns a space in Minari's form.
func serialize(s space.Space) (string, error) {
	switch s := s.(type) {
	case space.Box:
		low, high := make([]float32, s.Size()), make([]float32, s.Size())
		for i := range low {
			low[i], high[i] = s.Bounds(i)
		}
		shape, err := json.Marshal(append([]int{}, s.Shape...))
		return fmt.Sprintf(`{"type": "Box", "dtype": "float32", "shape": %s, "low": %s, "high": %s}`, shape, nested(low, s.Shape), nested(high, s.Shape)), err
	case space.Discrete:
		return fmt.Sprintf(`{"type": "Discrete", "dtype": "int64", "start": 0, "n": %d}`, s.N), nil
	case space.MultiDiscrete:
		n, err := json.Marshal(s.NVec)
		zeros, _ := json.Marshal(make([]int, len(s.NVec)))
		return fmt.Sprintf(`{"type": "MultiDiscrete", "dtype": "int64", "nvec": %s, "start": %s}`, n, zeros), err
	case space.MultiBinary:
		return fmt.Sprintf(`{"type": "MultiBinary", "n": %d}`, s.N), nil
	case space.Dict:
		var parts []string
		for _, f := range s.Fields {
			part, err := serialize(f.Space)
			if err != nil {
				return "", err
			}
			parts = append(parts, strconv.Quote(f.Key)+": "+part)
		}
		return `{"type": "Dict", "subspaces": {` + strings.Join(parts, ", ") + `}}`, nil
	}
	return "", fmt.Errorf("minari: a space of kind %s", s.Describe().Kind)
}

// nested formats row-major numbers as Python's nested lists, with Python's infinities.
func nested(x []float32, shape []int) string {
	if len(shape) == 0 {
		switch v := float64(x[0]); {
		case v > 3.5e38:
			return "Infinity"
		case v < -3.5e38:
			return "-Infinity"
		default:
			return strconv.FormatFloat(v, 'g', -1, 32)
		}
	}
	parts := make([]string, shape[0])
	size := len(x) / shape[0]
	for i := range parts {
		parts[i] = nested(x[i*size:(i+1)*size], shape[1:])
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// check returns an error unless text describes s, except for the bounds and dtypes of a Box. what names the
// space in the error.
func check(what, text string, s space.Space) error {
	var g gymSpace
	if err := json.Unmarshal(finite([]byte(text)), &g); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	d := s.Describe()
	wrong := fmt.Errorf("%s of the dataset is %s, and of the environment %s %v%v", what, finite([]byte(text)), d.Kind, d.Shape, d.N)
	switch s := s.(type) {
	case space.Box:
		if g.Type != "Box" || !slices.Equal(g.Shape, s.Shape) {
			return wrong
		}
	case space.Discrete:
		if g.Type != "Discrete" || string(g.N) != strconv.Itoa(s.N) || string(g.Start) != "0" {
			return wrong
		}
	case space.MultiDiscrete:
		var n, start []int
		if g.Type != "MultiDiscrete" || json.Unmarshal(g.NVec, &n) != nil || json.Unmarshal(g.Start, &start) != nil ||
			!slices.Equal(n, s.NVec) || slices.ContainsFunc(start, func(k int) bool { return k != 0 }) {
			return wrong
		}
	case space.MultiBinary:
		if g.Type != "MultiBinary" || string(g.N) != strconv.Itoa(s.N) && string(g.N) != fmt.Sprintf("[%d]", s.N) {
			return wrong
		}
	case space.Dict:
		if g.Type != "Dict" || json.Unmarshal(g.Subspaces, &g.parts) != nil || len(g.parts) != len(s.Fields) {
			return wrong
		}
		for _, f := range s.Fields {
			part, ok := g.parts[f.Key]
			if !ok {
				return wrong
			}
			if err := check(what+", part "+f.Key, string(part), f.Space); err != nil {
				return err
			}
		}
	default:
		return wrong
	}
	return nil
}
