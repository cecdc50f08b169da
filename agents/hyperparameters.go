package agents

import "fmt"

// A Hyperparameter is a number of a learner's configuration with its range.
type Hyperparameter struct {
	Name  string // as in files
	Value any    // an int or a float64
	OK    bool
	Range string // as an error names it, such as "above 0"
}

// Above is a hyperparameter that must be greater than low.
func Above(name string, v, low float64) Hyperparameter {
	return Hyperparameter{name, v, v > low, fmt.Sprintf("above %v", low)}
}

// AtLeast is a hyperparameter that must not be less than low.
func AtLeast[T int | float64](name string, v, low T) Hyperparameter {
	return Hyperparameter{name, v, v >= low, fmt.Sprintf("at least %v", low)}
}

// Fraction is a hyperparameter that must be in [0, 1].
func Fraction(name string, v float64) Hyperparameter {
	return Hyperparameter{name, v, v >= 0 && v <= 1, "in [0, 1]"}
}

// Validate reports the first hyperparameter that is out of its range. NaN is out of every range.
func Validate(algo string, params ...Hyperparameter) error {
	for _, p := range params {
		if !p.OK {
			return fmt.Errorf("%s: %s is %v, want %s", algo, p.Name, p.Value, p.Range)
		}
	}
	return nil
}
