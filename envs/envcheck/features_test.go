package envcheck_test

import (
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/space"
)

func TestCheckFeatures(t *testing.T) {
	box := space.NewBox(0, 1, 4)
	matrix := space.NewBox(0, 1, 2, 2)
	dict := space.Dict{Fields: []space.Field{{Key: "nodes", Space: matrix}, {Key: "pod", Space: space.NewBox(0, 1, 1)}}}
	for _, tc := range []struct {
		name     string
		obs      space.Space
		features []envs.Features
		want     string // in the error; "" is none
	}{
		{"box", box, []envs.Features{{Names: []string{"a", "b", "c", "d"}}}, ""},
		{"rows", matrix, []envs.Features{{Row: "node", Names: []string{"a", "b"}}}, ""},
		{"dict", dict, []envs.Features{{Part: "nodes", Row: "node", Names: []string{"a", "b"}}, {Part: "pod", Names: []string{"a"}}}, ""},
		{"one name too few", box, []envs.Features{{Names: []string{"a", "b", "c"}}}, "4 elements and rows of 3 names"},
		{"a row that is not called one", matrix, []envs.Features{{Names: []string{"a", "b"}}}, "4 elements and rows of 2 names"},
		{"no rest of a row", box, []envs.Features{{Row: "node", Names: []string{"a", "b", "c"}}}, "4 elements and rows of 3 names"},
		{"no names", box, []envs.Features{{}}, "4 elements and rows of 0 names"},
		{"a name twice", box, []envs.Features{{Names: []string{"a", "b", "a", "d"}}}, "occur twice"},
		{"an empty name", box, []envs.Features{{Names: []string{"a", "b", "", "d"}}}, "empty"},
		{"a part too few", dict, []envs.Features{{Part: "nodes", Row: "node", Names: []string{"a", "b"}}}, "features of 1 parts for an observation of 2"},
		{"another part", dict, []envs.Features{{Part: "node", Row: "node", Names: []string{"a", "b"}}, {Part: "pod", Names: []string{"a"}}}, `"node" where the observation has "nodes"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := envcheck.CheckFeatures(tc.obs, tc.features)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("CheckFeatures = %v, want %q", err, tc.want)
			}
		})
	}
}
