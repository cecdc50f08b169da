package envs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
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
