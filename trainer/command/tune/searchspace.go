package tune

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// searchSpace defines the distributions of hyperparameters, in the order of its file. searchspaces/ppo.yml
// describes the format.
type searchSpace []dimension

// dimension is one hyperparameter of a search space.
type dimension struct {
	name       string
	Choice     []any     `yaml:"choice"`
	Uniform    []float64 `yaml:"uniform"`
	LogUniform []float64 `yaml:"log_uniform"`
	OneMinus   []float64 `yaml:"one_minus"`
	FactorOf   []string  `yaml:"factor_of"`
	QuotientOf string    `yaml:"quotient_of"`
}

// parseSearchSpace reads a search space. The error names file and hyperparameter.
func parseSearchSpace(file string, text []byte) (searchSpace, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode || len(doc.Content[0].Content) == 0 {
		return nil, fmt.Errorf("%s: want a map from hyperparameters to how they are drawn", file)
	}
	var s searchSpace
	pairs := doc.Content[0].Content
	for i := 0; i < len(pairs); i += 2 {
		d := dimension{name: pairs[i].Value}
		part, err := yaml.Marshal(pairs[i+1])
		if err == nil {
			dec := yaml.NewDecoder(bytes.NewReader(part))
			dec.KnownFields(true)
			err = dec.Decode(&d)
		}
		if err == nil {
			err = d.check()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, d.name, err)
		}
		s = append(s, d)
	}
	return s, nil
}

func (d *dimension) check() error {
	ways := 0
	if len(d.Choice) > 0 {
		ways++
	}
	for _, r := range [][]float64{d.Uniform, d.LogUniform, d.OneMinus} {
		if r == nil {
			continue
		}
		ways++
		if len(r) != 2 || !(r[0] <= r[1]) {
			return fmt.Errorf("range %v, want [low, high]", r)
		}
	}
	for _, r := range [][]float64{d.LogUniform, d.OneMinus} {
		if r != nil && !(r[0] > 0) {
			return fmt.Errorf("range %v has no logarithm, want numbers above 0", r)
		}
	}
	if ways != 1 {
		return errors.New("want one of choice, uniform, log_uniform and one_minus")
	}
	return nil
}

// sample draws all hyperparameters except the fixed ones. factor_of and quotient_of may also refer to those in
// base. Numbers have four digits, because more would not matter.
func (s searchSpace) sample(rng *rand.Rand, base, fixed map[string]any) (map[string]any, error) {
	drawn := map[string]any{}
	for _, d := range s {
		v := d.draw(rng) // also draws fixed ones, so that fixing one does not change the others
		if _, ok := fixed[d.name]; !ok {
			drawn[d.name] = v
		}
	}
	for _, d := range s {
		if _, ok := drawn[d.name]; !ok {
			continue
		}
		v, err := d.depend(drawn[d.name], cli.MergeKwargs(base, drawn, fixed))
		if err != nil {
			return nil, fmt.Errorf("search space: %s: %w", d.name, err)
		}
		drawn[d.name] = v
	}
	return drawn, nil
}

func (d *dimension) draw(rng *rand.Rand) any {
	between := func(r []float64) float64 { return r[0] + rng.Float64()*(r[1]-r[0]) }
	logBetween := func(r []float64) float64 {
		return math.Exp(math.Log(r[0]) + rng.Float64()*(math.Log(r[1])-math.Log(r[0])))
	}
	switch {
	case d.Uniform != nil:
		return fourDigits(between(d.Uniform))
	case d.LogUniform != nil:
		return fourDigits(logBetween(d.LogUniform))
	case d.OneMinus != nil:
		const decimals = 1e9 // so that 1 minus four digits does not become 0.99980000000001
		return math.Round((1-fourDigits(logBetween(d.OneMinus)))*decimals) / decimals
	}
	return d.Choice[rng.IntN(len(d.Choice))]
}

func fourDigits(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		return x // FormatFloat wrote an invalid number
	}
	return y
}

// depend adjusts a drawn value to the hyperparameters that it depends on.
func (d *dimension) depend(v any, all map[string]any) (any, error) {
	if d.FactorOf == nil && d.QuotientOf == "" {
		return v, nil
	}
	n, err := run.WholeNumber(d.name, v)
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("%d, want at least 1", n)
	}
	if d.QuotientOf != "" {
		x, err := run.WholeNumber(d.QuotientOf, all[d.QuotientOf])
		return max(1, x/n), err
	}
	product := 1
	for _, name := range d.FactorOf {
		x, err := run.WholeNumber(name, all[name])
		if err != nil {
			return nil, err
		}
		product *= x
	}
	for n > 1 && product%n != 0 {
		n /= 2
	}
	return n, nil
}
