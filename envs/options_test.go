package envs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
)

// TestFileMark: the mark is no part of the name, in descriptions and when options are decoded.
func TestFileMark(t *testing.T) {
	cfg := struct {
		Data  string `opt:"data,file" doc:"a folder"`
		Steps int    `opt:"steps" doc:"a number"`
	}{Steps: 3}
	want := []envs.Option{{Name: "data", Type: "string", Default: "", Doc: "a folder", File: true}, {Name: "steps", Type: "int", Default: 3, Doc: "a number"}}
	if diff := cmp.Diff(want, envs.DescribeOptions(&cfg)); diff != "" {
		t.Errorf("DescribeOptions (-want +got):\n%s", diff)
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
