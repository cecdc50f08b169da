package gpushare

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestParsePods reads columns by their names, in any order, with and without the optional ones.
func TestParsePods(t *testing.T) {
	full := "\ufeffgpu_spec,name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos,creation_time,deletion_time,scheduled_time\r\nT4|G2,p, 4000 ,1024,1,320,LS,7,110,10\r\n,q,1,0,0,0,BE,7,3,\r\n"
	five := "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nr,1,2,8,1000\n"
	for text, want := range map[string][]Pod{
		full: {
			{Name: "p", Shape: Shape{4000, 1024, 1, 320, "T4|G2"}, Created: 7 * time.Second, Duration: 100 * time.Second},
			{Name: "q", Shape: Shape{MilliCPU: 1}, Created: 7 * time.Second},
		},
		five: {{Name: "r", Shape: Shape{1, 2, 8, 1000, ""}}},
	} {
		got, err := (Assumed{}).parsePods("pods.csv", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}

// TestTraceErrors places each error at a file and a line.
func TestTraceErrors(t *testing.T) {
	const pods, nodes = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n", "sn,cpu_milli,memory_mib,gpu,model\n"
	for _, tc := range []struct{ text, want string }{
		{"", "f.csv:1: empty file, want a header line with name"},
		{pods, "no pod"},
		{"name,cpu_milli\n", `no column "memory_mib"`},
		{pods + "p,1,2,0\n", "f.csv:2: 4 fields, want the header's 5"},
		{pods + "p,one,2,0,0\n", `f.csv:2: cpu_milli is "one"`},
		{pods + "p,-1,2,0,0\n", "want a whole number from 0"},
		{pods + "p,1,2,1,1001\n", `gpu_milli is "1001"`},
		{pods + "p,1,2,65,1000\n", `num_gpu is "65"`},
		{pods + "p,1,2,2,500\n", "only one GPU can be shared"},
		{pods + "p,1,2,0,500\n", "500 thousandths of no GPU"},
		{pods + "p,1,2,1,0\n", "0 thousandths of each GPU"},
		{pods + ",1,2,0,0\n", "name is empty"},
		{"name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time\np,1,2,0,0,NaN\n", `creation_time is "NaN"`},
	} {
		if _, err := (Assumed{}).parsePods("f.csv", strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("pods %q: %v, want an error with %q", tc.text, err, tc.want)
		}
	}
	for _, tc := range []struct{ text, want string }{
		{nodes, "no node"},
		{nodes + "a,1,2,0,\na,1,2,0,\n", "f.csv:3: node a stands in line 2 too"},
		{nodes + ",1,2,0,\n", "sn is empty"},
		{nodes + "a,1,2,100,G2\n", `gpu is "100"`},
	} {
		if _, err := (Assumed{}).parseNodes("f.csv", strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("nodes %q: %v, want an error with %q", tc.text, err, tc.want)
		}
	}
}

// FuzzTrace: whatever files hold, reading and playing them gives a run or an error.
func FuzzTrace(f *testing.F) {
	f.Add("sn,cpu_milli,memory_mib,gpu,model\na,2000,8192,2,G2\n", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1024,1,500\n")
	f.Add("sn,cpu_milli,memory_mib,gpu\na,2000,8192,2\n", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,1000,1024,1,500,T4|\n")
	f.Add("machine,gpu_type,cap_cpu,cap_mem,cap_gpu\na,T4,2,8,2\n",
		"job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\nj,t,2.0,Terminated,1,2,100.0,1,50.0,T4\n")
	f.Add("machineId,number of GPUs,single GPU mem\nm,2,24GB\n",
		`[{"jobid":"a","submitted_time":"2017-10-01 00:00:00","attempts":[{"start_time":"None","detail":[{"ip":"m","gpus":["gpu0"]}]}]}]`)
	f.Add("date,vca,total\n2020-04-01,4,4\n",
		"job_id,gpu_num,cpu_num,node_num,submit_time,start_time,duration\n1,3,5,2,2020-04-01 10:00:00,2020-04-01 10:00:00,5\n")
	f.Fuzz(func(t *testing.T, nodeText, podText string) {
		nodes, err := (Assumed{}).parseNodes("nodes", strings.NewReader(nodeText))
		if err != nil {
			return
		}
		pods, err := (Assumed{}).parsePods("pods", strings.NewReader(podText))
		if err != nil {
			return
		}
		for _, name := range PolicyNames() {
			_, _ = Reproduce(nodes, pods, name, 1, DefaultRatio)
		}
	})
}
