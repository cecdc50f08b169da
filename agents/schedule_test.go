package agents_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
)

func TestScheduleText(t *testing.T) {
	for _, tc := range []struct {
		s    agents.Schedule
		text string
	}{
		{agents.Constant(0.001), "0.001"},
		{agents.Constant(0), "0"},
		{agents.Constant(3e-4), "0.0003"},
		{agents.Constant(2.5e-5), "2.5e-05"},
		{agents.Constant(-1), "-1"},
		{agents.Constant(math.Nextafter(0.3, 1)), "0.30000000000000004"},
		{agents.Schedule{Initial: 0.001, Linear: true}, "lin_0.001"},
		{agents.Schedule{Initial: 0.2, Linear: true}, "lin_0.2"},
	} {
		if got := tc.s.String(); got != tc.text {
			t.Errorf("String() of %+v = %q, want %q", tc.s, got, tc.text)
		}
		var back agents.Schedule
		if err := back.UnmarshalText([]byte(tc.text)); err != nil || back != tc.s {
			t.Errorf("UnmarshalText(%q) = %+v, %v, want %+v", tc.text, back, err, tc.s)
		}
	}
	var s agents.Schedule
	if err := s.UnmarshalText([]byte("lin_2.5E-4")); err != nil || s != (agents.Schedule{Initial: 0.00025, Linear: true}) {
		t.Errorf("UnmarshalText(lin_2.5E-4) = %+v, %v", s, err)
	}
}

func TestScheduleJSON(t *testing.T) {
	type file struct {
		LearningRate agents.Schedule `json:"learning_rate"`
	}
	for _, tc := range []struct {
		json string
		want agents.Schedule
	}{
		{`{"learning_rate": 0.001}`, agents.Constant(0.001)},
		{`{"learning_rate": 1e-3}`, agents.Constant(0.001)},
		{`{"learning_rate": "0.001"}`, agents.Constant(0.001)},
		{`{"learning_rate": "lin_0.001"}`, agents.Schedule{Initial: 0.001, Linear: true}},
		{`{}`, agents.Schedule{}},
	} {
		var got file
		if err := json.Unmarshal([]byte(tc.json), &got); err != nil || got.LearningRate != tc.want {
			t.Errorf("%s is %+v, %v, want %+v", tc.json, got.LearningRate, err, tc.want)
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var back file
		if err := json.Unmarshal(text, &back); err != nil || back != got {
			t.Errorf("%s does not come back: %+v, %v", text, back, err)
		}
	}
}

func TestScheduleErrors(t *testing.T) {
	for _, text := range []string{"", "fast", "lin_", "linear_0.1", "lin_lin_0.1", "0.1 ", "NaN", "lin_NaN", "Inf", "lin_-Inf", "1e999"} {
		s := agents.Constant(7)
		if err := s.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), `"`+text+`"`) {
			t.Errorf("UnmarshalText(%q): error %v, want one that names it", text, err)
		}
		if s != agents.Constant(7) {
			t.Errorf("UnmarshalText(%q) has changed the schedule to %+v", text, s)
		}
	}
	for _, text := range []string{`null`, `true`, `[0.1]`, `{}`, `"fast"`, `"\"0.1\""`} {
		var s agents.Schedule
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("JSON %s gives %+v, want an error", text, s)
		}
	}
}

func TestScheduleAt(t *testing.T) {
	constant, linear := agents.Constant(0.4), agents.Schedule{Initial: 0.4, Linear: true}
	for _, tc := range []struct{ progressRemaining, constant, linear float64 }{
		{1, 0.4, 0.4}, {0.75, 0.4, 0.3}, {0.5, 0.4, 0.2}, {0, 0.4, 0},
		{-0.1, 0.4, 0}, // a last rollout may go beyond the end
	} {
		if got := constant.At(tc.progressRemaining); got != tc.constant {
			t.Errorf("constant.At(%v) = %v, want %v", tc.progressRemaining, got, tc.constant)
		}
		if got := linear.At(tc.progressRemaining); math.Abs(got-tc.linear) > 1e-15 {
			t.Errorf("linear.At(%v) = %v, want %v", tc.progressRemaining, got, tc.linear)
		}
	}
}
