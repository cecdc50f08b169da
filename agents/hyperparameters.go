package agents

import "fmt"

// A Hyperparameter is a number of a learner's configuration with its range.
type Hyperparameter struct {
	Name  string // as in files
	Value any    // an int or a float64
	OK    bool
	Range string // for errors, such as "above 0"
}

// Above is a hyperparameter that must be greater than low.
func Above(name string, v, low float64) Hyperparameter {
	return Hyperparameter{name, v, v > low, fmt.Sprintf("above %v", low)}
}

// maxCount bounds whole numbers. Larger values would exhaust memory or never finish.
const maxCount = 1_000_000_000

// AtLeast is a hyperparameter that must not be less than low, and if it is a whole number not more than 10⁹.
func AtLeast[T int | float64](name string, v, low T) Hyperparameter {
	if n, ok := any(v).(int); ok && n > maxCount {
		return Hyperparameter{name, v, false, fmt.Sprintf("at most %d", maxCount)}
	}
	return Hyperparameter{name, v, v >= low, fmt.Sprintf("at least %v", low)}
}

// Timesteps is a number of steps of a whole training.
func Timesteps(name string, v int) Hyperparameter {
	if v > maxCount*maxCount/1000 {
		return Hyperparameter{name, v, false, "at most 10¹⁵"}
	}
	return Hyperparameter{name, v, v >= 1, "at least 1"}
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
