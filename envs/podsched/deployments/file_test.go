package deployments

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

func TestParseDeployments(t *testing.T) {
	got, err := parse("f.csv", strings.NewReader("name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action\n"+
		"a,8,1000m,1000m,2.0Gi,2Gi,add\nb,1,0.5,1,512Mi,1Gi,add\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Deployment{
		{"a", 8, cluster.Resources{MilliCPU: 1000, MemoryBytes: 2 << 30}},
		{"b", 1, cluster.Resources{MilliCPU: 500, MemoryBytes: 512 << 20}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deployments (-want +got):\n%s", diff)
	}
	for _, tc := range []struct{ text, want string }{
		{"", "header"},
		{"name,pod_count\n", `no column "cpu_request"`},
		{"name,pod_count,cpu_request,mem_request\n", "no deployment"},
		{"name,pod_count,cpu_request,mem_request\na,0,1,1\n", `f.csv:2: pod_count is "0"`},
		{"name,pod_count,cpu_request,mem_request\na,1,1,1\nb,1,one,1\n", `f.csv:3: cpu_request: quantity "one"`},
		{"name,pod_count,cpu_request,mem_request\na,1,1,-1Gi\n", `mem_request: quantity "-1Gi"`},
		{"name,pod_count,cpu_request,mem_request\na,1,1,NaN\n", `mem_request: quantity "NaN"`},
		{"name,pod_count,cpu_request,mem_request\na,1,1\n", "f.csv:2: 3 fields, want the header's 4"},
	} {
		if _, err := parse("f.csv", strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("parse %q: %v, want an error with %q", tc.text, err, tc.want)
		}
	}
}

func FuzzDeployments(f *testing.F) {
	f.Add("name,pod_count,cpu_request,mem_request\na,8,1000m,2.0Gi\n")
	f.Add("mem_request,cpu_request,pod_count,name\n1e3k,.5,1,\"b\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parse("f.csv", strings.NewReader(text))
		for _, d := range list {
			if err != nil || d.Replicas < 1 || d.Replicas > MaxReplicas || d.Requests.MilliCPU < 0 || d.Requests.MemoryBytes < 0 ||
				d.Requests.MilliCPU > cluster.MaxAmount || d.Requests.MemoryBytes > cluster.MaxAmount {
				t.Errorf("%q gives %+v, %v", text, d, err)
			}
		}
	})
}
