package envs_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
)

// TestFileMark: the mark is no part of the name, in descriptions and when options are decoded, and
// words name no file.
func TestFileMark(t *testing.T) {
	cfg := struct {
		Data  string `opt:"data,file" words:"none all" doc:"a folder"`
		Steps int    `opt:"steps" doc:"a number"`
	}{Steps: 3}
	want := []envs.Option{
		{Name: "data", Type: "string", Default: "", Doc: "a folder", File: true, Words: []string{"none", "all"}},
		{Name: "steps", Type: "int", Default: 3, Doc: "a number"},
	}
	if diff := cmp.Diff(want, envs.DescribeOptions(&cfg)); diff != "" {
		t.Errorf("DescribeOptions (-want +got):\n%s", diff)
	}
	for value, names := range map[any]bool{"none": false, "all": false, "": false, nil: false, "al": true, "/d": true, 3: true} {
		if want[0].NamesFile(value) != names || want[1].NamesFile(value) {
			t.Errorf("%v names a file: %v and %v, want %v and false", value, want[0].NamesFile(value), want[1].NamesFile(value), names)
		}
	}
	if !want[0].NamesFile([]any{"all"}) || want[0].NamesFile([]any{}) || want[0].NamesFile([]string(nil)) {
		t.Error("a list names files, and an empty one none")
	}
	if err := envs.DecodeOptions(map[string]any{"data": "/d", "steps": 4}, &cfg); err != nil || cfg.Data != "/d" || cfg.Steps != 4 {
		t.Errorf("DecodeOptions = %v, %+v", err, cfg)
	}
	defer func() {
		if recover() == nil {
			t.Error("another mark is taken")
		}
	}()
	envs.DescribeOptions(&struct {
		X string `opt:"x,flie"`
	}{})
}

type shared struct {
	Table string `opt:"table,file" doc:"a file"`
	Nodes int    `opt:"nodes" doc:"a number"`
}

type embedding struct {
	Before bool `opt:"before" doc:"a switch"`
	shared `opt:",squash"`
	After  float64 `opt:"after" doc:"a number"`
	More   struct {
		Deep string `opt:"deep" doc:"a text"`
	} `opt:",squash"`
}

// TestSquash: options of a struct in a struct are listed in its place and decoded by their own
// names. The expected values are written by hand.
func TestSquash(t *testing.T) {
	cfg := embedding{shared: shared{Nodes: 3}, After: 0.5}
	want := []envs.Option{
		{Name: "before", Type: "bool", Default: false, Doc: "a switch"},
		{Name: "table", Type: "string", Default: "", Doc: "a file", File: true},
		{Name: "nodes", Type: "int", Default: 3, Doc: "a number"},
		{Name: "after", Type: "float", Default: 0.5, Doc: "a number"},
		{Name: "deep", Type: "string", Default: "", Doc: "a text"},
	}
	if diff := cmp.Diff(want, envs.DescribeOptions(&cfg)); diff != "" {
		t.Errorf("DescribeOptions (-want +got):\n%s", diff)
	}
	if err := envs.DecodeOptions(map[string]any{"table": "t.csv", "before": true, "deep": "x"}, &cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.Table != "t.csv" || cfg.Nodes != 3 || !cfg.Before || cfg.After != 0.5 || cfg.More.Deep != "x" {
		t.Errorf("DecodeOptions set %+v", cfg)
	}
	for name, value := range map[string]any{"shared": map[string]any{"nodes": 4}, "More": map[string]any{}, "nodes": "x"} {
		if err := envs.DecodeOptions(map[string]any{name: value}, &cfg); !errors.Is(err, envs.ErrInvalidOption) {
			t.Errorf("DecodeOptions(%s: %v) = %v, want ErrInvalidOption", name, value, err)
		}
	}
	if got := envs.ResolveFiles(&cfg, map[string]any{"table": "t.csv"}, "/home")["table"]; got != "/home/t.csv" {
		t.Errorf("ResolveFiles gives %v, want /home/t.csv", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("two options of one name are taken")
		}
	}()
	envs.DescribeOptions(&struct {
		shared `opt:",squash"`
		Nodes  int `opt:"nodes"`
	}{})
}

// TestValid: the tag `valid` bounds numbers and each number of a list, and lists words; values are
// checked where they lie just inside and just outside, and NaN.
func TestValid(t *testing.T) {
	type numbers struct {
		Count int     `opt:"count" valid:"1,1e6"`
		Share float64 `opt:"share" valid:"0.25,1"`
		Parts []int   `opt:"parts" valid:"1,3"`
		Free  float64 `opt:"free"`
	}
	type options struct {
		numbers `opt:",squash"`
		Mode    string `opt:"mode" valid:"|slow|fast"`
	}
	o := options{numbers: numbers{Count: 1_000_000, Share: 0.25, Parts: []int{1, 3}, Free: math.Inf(1)}}
	if err := envs.CheckOptions(&o); err != nil {
		t.Errorf("valid options: %v", err)
	}
	for want, change := range map[string]func(*options){
		"count is 1000001, want 1 to 1000000":            func(o *options) { o.Count = 1_000_001 },
		"count is 0, want 1 to 1000000":                  func(o *options) { o.Count = 0 },
		"share is 0.24, want 0.25 to 1":                  func(o *options) { o.Share = 0.24 },
		"share is NaN, want 0.25 to 1":                   func(o *options) { o.Share = math.NaN() },
		"each of parts is 4, want 1 to 3":                func(o *options) { o.Parts = []int{2, 4} },
		`mode is "fest", want one of ["" "slow" "fast"]`: func(o *options) { o.Mode = "fest" },
	} {
		wrong := o
		change(&wrong)
		if err := envs.CheckOptions(&wrong); !errors.Is(err, envs.ErrInvalidOption) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("CheckOptions = %v, want %q", err, want)
		}
	}
	var texts []string
	for _, d := range envs.DescribeOptions(&o) {
		texts = append(texts, d.Valid())
	}
	if diff := cmp.Diff([]string{"1 to 1e+06", "0.25 to 1", "1 to 3", "", "slow, fast"}, texts); diff != "" {
		t.Errorf("Valid (-want +got):\n%s", diff)
	}
	for _, cfg := range []any{
		&struct {
			X int `opt:"x" valid:"1"`
		}{},
		&struct {
			X float64 `opt:"x" valid:"2,1"`
		}{},
		&struct {
			X bool `opt:"x" valid:"0,1"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("DescribeOptions takes %T", cfg)
				}
			}()
			envs.DescribeOptions(cfg)
		}()
	}
}

// TestOpen: options are decoded over fresh defaults each time, load runs once for all copies, and
// its errors and those of the options come back.
func TestOpen(t *testing.T) {
	loads, failed := 0, errors.New("no table")
	open := envs.Open(func() shared { return shared{Nodes: 5} },
		func(o shared) (*shared, error) {
			if loads++; o.Table != "" {
				return nil, failed
			}
			return &o, nil
		},
		func(o *shared) envs.Task {
			maker, err := envcheck.Identity(o.Nodes).Open(nil)
			if err != nil {
				t.Fatal(err)
			}
			task, err := maker()
			if err != nil {
				t.Fatal(err)
			}
			return task
		})
	for i, tc := range []struct {
		opts  map[string]any
		nodes int
	}{{map[string]any{"nodes": 2}, 2}, {nil, 5}} {
		maker, err := open(tc.opts)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			task, err := maker()
			if err != nil {
				t.Fatal(err)
			}
			if obs, _ := task.Spaces(); obs.Size() != tc.nodes {
				t.Errorf("%v: observation of %d, want %d", tc.opts, obs.Size(), tc.nodes)
			}
		}
		if loads != i+1 {
			t.Errorf("%v: loaded %d times, want %d", tc.opts, loads, i+1)
		}
	}
	if _, err := open(map[string]any{"node": 2}); !errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("an unknown option: %v, want ErrInvalidOption", err)
	}
	if _, err := open(map[string]any{"table": "t.csv"}); !errors.Is(err, failed) {
		t.Errorf("load's error: %v, want %v", err, failed)
	}
}
