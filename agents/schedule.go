package agents

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Schedule is a hyperparameter that is constant or falls linearly to 0 over the training, such as
// a learning rate. Its text form is RL Zoo's: "0.001" or "lin_0.001".
type Schedule struct {
	Initial float64
	Linear  bool
}

// Horizon holds the length of a training, over which linear schedules fall. Configurations of learners embed it.
type Horizon struct {
	TotalTimesteps int `json:"-"` // gradient steps, for learners from recorded transitions
}

// SetTotalTimesteps sets TotalTimesteps.
func (h *Horizon) SetTotalTimesteps(n int) { h.TotalTimesteps = n }

// Remaining returns the share of the training left after the given timesteps, for [Schedule.At].
func (h *Horizon) Remaining(timesteps int) float64 {
	return 1 - float64(timesteps)/float64(h.TotalTimesteps)
}

// Constant returns a constant schedule.
func Constant(v float64) Schedule { return Schedule{Initial: v} }

// At returns the value with progressRemaining of the training left, from 1 down to 0.
func (s Schedule) At(progressRemaining float64) float64 {
	if s.Linear {
		return s.Initial * max(0, progressRemaining)
	}
	return s.Initial
}

func (s Schedule) String() string {
	v := strconv.FormatFloat(s.Initial, 'g', -1, 64)
	if s.Linear {
		return "lin_" + v
	}
	return v
}

// MarshalText implements encoding.TextMarshaler.
func (s Schedule) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalJSON implements json.Unmarshaler: a number is a constant, a string is the text form.
func (s *Schedule) UnmarshalJSON(data []byte) error {
	return s.UnmarshalText(bytes.Trim(data, `"`))
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Schedule) UnmarshalText(text []byte) error {
	number, linear := strings.CutPrefix(string(text), "lin_")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("agents: schedule %q, want a number such as 0.001 or lin_0.001", text)
	}
	*s = Schedule{Initial: v, Linear: linear}
	return nil
}
