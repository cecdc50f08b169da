package envs_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
)

type kinds struct {
	Steps int       `opt:"steps" doc:"a number"`
	Seed  uint64    `opt:"seed" doc:"not negative"`
	Rate  float64   `opt:"rate" doc:"a number"`
	Name  string    `opt:"name" doc:"a text"`
	On    bool      `opt:"on" doc:"a switch"`
	Files []string  `opt:"files,file" doc:"files"`
	Rates []float64 `opt:"rates" doc:"numbers"`
	Sizes []int     `opt:"sizes" doc:"whole numbers"`
	Table string    `opt:"table,file" words:"none" doc:"a file"`
}

// A message about a value of a wrong kind uses the names of option types in the protocol.
func TestOptionOfWrongKind(t *testing.T) {
	for _, tc := range []struct {
		name  string
		value any
		want  string
	}{
		{"steps", "x", `option "steps" is string, want int`},
		{"steps", []any{int64(1)}, `option "steps" is list, want int`},
		{"steps", map[string]any{"a": 1}, `option "steps" is map, want int`},
		{"steps", []byte("x"), `option "steps" is bytes, want int`},
		{"steps", true, `option "steps" is bool, want int`},
		{"steps", 1e300, `option "steps" is 1e+300, want a whole number`},
		{"steps", uint64(math.MaxUint64), `option "steps" is 18446744073709551615, want at most 9223372036854775807`},
		{"seed", int64(-1), `option "seed" is -1, want at least 0`},
		{"rate", "x", `option "rate" is string, want float`},
		{"name", int64(3), `option "name" is int, want string`},
		{"on", int64(1), `option "on" is int, want bool`},
		{"files", "x", `option "files" is string, want list`},
		{"files", []any{"a", int64(3)}, `element 1 of option "files" is int, want string`},
		{"rates", []any{"a"}, `element 0 of option "rates" is string, want float`},
		{"sizes", []any{uint64(1 << 63)}, `element 0 of option "sizes" is 9223372036854775808, want at most 9223372036854775807`},
		{"sizes", []any{1.0, 1.5}, `element 1 of option "sizes" is 1.5, want a whole number`},
	} {
		err := envs.DecodeOptions(map[string]any{tc.name: tc.value}, &kinds{})
		if want := "envs: invalid option: " + tc.want; !errors.Is(err, envs.ErrInvalidOption) || err.Error() != want {
			t.Errorf("DecodeOptions(%s: %v): %v, want %s", tc.name, tc.value, err, want)
		}
	}
	var got kinds
	all := map[string]any{
		"steps": 3.0, "seed": uint8(7), "rate": int64(2), "name": "n", "on": true,
		"files": []any{"a"}, "rates": []any{int64(1), 0.5}, "sizes": []any{2.0, uint8(3)}, "table": nil,
	}
	if err := envs.DecodeOptions(all, &got); err != nil {
		t.Fatal(err)
	}
	want := kinds{Steps: 3, Seed: 7, Rate: 2, Name: "n", On: true, Files: []string{"a"}, Rates: []float64{1, 0.5}, Sizes: []int{2, 3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("DecodeOptions (-want +got):\n%s", diff)
	}
}

func TestUnknownOption(t *testing.T) {
	err := envs.DecodeOptions(map[string]any{"step": 3}, &kinds{})
	var unknown *envs.UnknownOptionError
	if !errors.As(err, &unknown) || unknown.Name != "step" || !errors.Is(err, envs.ErrInvalidOption) {
		t.Fatalf("DecodeOptions(step) = %v, want an UnknownOptionError of step", err)
	}
	if !strings.Contains(err.Error(), `did you mean "steps"?`) {
		t.Errorf("message %q names no near option", err)
	}
}

// Only relative paths of options that name files change, and the map that was given never does.
func TestResolveFiles(t *testing.T) {
	given := map[string]any{"name": "n", "table": "t.csv", "files": []any{"a", "/b"}, "steps": 3}
	want := map[string]any{"name": "n", "table": "/home/t.csv", "files": []any{"/home/a", "/b"}, "steps": 3}
	if diff := cmp.Diff(want, envs.ResolveFiles(&kinds{}, given, "/home")); diff != "" {
		t.Errorf("ResolveFiles (-want +got):\n%s", diff)
	}
	if given["table"] != "t.csv" {
		t.Errorf("the given map now holds %v", given)
	}
	for name, value := range map[string]any{"a word": "none", "nothing": "", "an absolute path": "/t", "another type": 3} {
		opts := map[string]any{"table": value}
		if diff := cmp.Diff(opts, envs.ResolveFiles(&kinds{}, opts, "/home")); diff != "" {
			t.Errorf("ResolveFiles of %s (-want +got):\n%s", name, diff)
		}
	}
	if got := envs.ResolveFiles(nil, given, "/home"); got["table"] != "t.csv" {
		t.Errorf("ResolveFiles without options = %v", got)
	}
}
