package gpushare

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestPhilly reads files of the published layout, made up by hand; the last values are worked out in the comments. Times
// count from the submission of application_1_1.
func TestPhilly(t *testing.T) {
	pods, err := ReadPods(filepath.Join("testdata", "philly_cluster_job_log.json"))
	if err != nil {
		t.Fatal(err)
	}
	wantPods := []Pod{
		// Still runs: of unknown duration.
		{Name: "application_1_1/0", Shape: Shape{MilliCPU: 3000, MemoryMiB: 64000, GPUs: 1, MilliGPU: 1000}},
		// No start is known. Its first server has no GPU.
		{Name: "application_1_2/1", Shape: Shape{MilliCPU: 3000, MemoryMiB: 64000, GPUs: 1, MilliGPU: 1000}, Created: time.Minute},
		// Two servers of the first of two attempts, from 00:03 to 01:03.
		{Name: "application_1_3/0", Shape: Shape{MilliCPU: 24000, MemoryMiB: 512000, GPUs: 8, MilliGPU: 1000}, Created: 2 * time.Minute, Duration: time.Hour},
		{Name: "application_1_3/1", Shape: Shape{MilliCPU: 6000, MemoryMiB: 128000, GPUs: 2, MilliGPU: 1000}, Created: 2 * time.Minute, Duration: time.Hour},
		// application_1_0 was never scheduled.
	}
	if d := cmp.Diff(wantPods, pods); d != "" {
		t.Errorf("pods (-want +got):\n%s", d)
	}
	nodes, err := ReadNodes(filepath.Join("testdata", "philly_cluster_machine_list.csv"))
	if err != nil {
		t.Fatal(err)
	}
	wantNodes := []Node{
		{Name: "m1", MilliCPU: 24000, MemoryMiB: 512000, GPUs: 8, Model: "24GB"},
		{Name: "m2", MilliCPU: 6000, MemoryMiB: 128000, GPUs: 2, Model: "12GB"},
		{Name: "m3"},
	}
	if d := cmp.Diff(wantNodes, nodes); d != "" {
		t.Errorf("nodes (-want +got):\n%s", d)
	}
}

// TestPhillyAssumed: other assumptions are of nodes and pods alike.
func TestPhillyAssumed(t *testing.T) {
	a := Assumed{MilliCPU: 500}
	nodes, err := a.ReadNodes(filepath.Join("testdata", "philly_cluster_machine_list.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := nodes[0], (Node{Name: "m1", MilliCPU: 4000, MemoryMiB: 512000, GPUs: 8, Model: "24GB"}); got != want {
		t.Errorf("node %+v, want %+v", got, want)
	}
	pods, err := a.ReadPods(filepath.Join("testdata", "philly_cluster_job_log.json"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := pods[3].Shape, (Shape{MilliCPU: 1000, MemoryMiB: 128000, GPUs: 2, MilliGPU: 1000}); got != want {
		t.Errorf("pod %+v, want %+v", got, want)
	}
}

// TestPhillyErrors places each error at a file and the line where the job begins.
func TestPhillyErrors(t *testing.T) {
	const good = `{"jobid": "a", "submitted_time": "2017-10-01 00:00:00", "attempts": [{"detail": [{"ip": "m", "gpus": ["gpu0"]}]}]}`
	many := strings.Repeat(`"g",`, 64) + `"g"`
	for _, tc := range []struct{ text, want string }{
		{"[]", "f.json:1: no pod"},
		{"\n [\n", "f.json:3: the list of jobs has no end: unexpected EOF"},
		{"[" + good, "f.json:1: the list of jobs has no end"},
		{"[\n" + good + ",\n\n{\n\"jobid\": ", "f.json:5: the list of jobs has no end"},
		{"[\n" + good + ",\n{jobid}]", "f.json:2: job after this line: invalid character 'j'"},
		{"[\n" + good + "\n]\n{}", "f.json:3: more after the list of jobs, want its end"},
		{"[\n" + good + ",\n3]", "f.json:3: job: json: cannot unmarshal number"},
		{"[\n" + good + ",\n{\n\"user\": \"u\"}]", "f.json:3: job \"\": jobid is empty, want the job's id"},
		{"[\n" + good + ",\n" + strings.Replace(good, "2017-10-01 00", "2017-10-01T00", 1) + "]",
			`f.json:3: job "a": submitted_time is "2017-10-01T00:00:00", want a time from 1971 to 2200 like 2006-01-02 15:04:05`},
		{"[" + strings.Replace(good, "2017-10-01 00:00:00", "None", 1) + "]", `submitted_time is "None", want a time like`},
		{"[" + strings.Replace(good, "2017", "1917", 1) + "]", `submitted_time is "1917-10-01 00:00:00"`},
		{"[" + strings.Replace(good, `"detail"`, `"start_time": "now", "detail"`, 1) + "]", `start_time is "now", want a time`},
		{"[" + strings.Replace(good, `"detail"`, `"end_time": "2017-13-01 00:00:00", "detail"`, 1) + "]", `end_time is "2017-13-01 00:00:00"`},
		{"[" + strings.Replace(good, `"gpu0"`, many, 1) + "]", `65 GPUs on server "m", want 0 to 64`},
		{"[" + good + "," + strings.Replace(good, "2017", "2199", 1) + "]", "f.json:1: pod a/0 is submitted"},
	} {
		if _, err := (Assumed{}).parsePods("f.json", strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("jobs %q: %v, want an error with %q", tc.text, err, tc.want)
		}
	}
	const servers = "machineId,number of GPUs,single GPU mem\n"
	for _, tc := range []struct{ text, want string }{
		{servers, "no node"},
		{servers + "m1,8,24GB\n,8,24GB\n", "f.csv:3: machineId is empty"},
		{servers + "m1,8,24GB\nm1,8,24GB\n", "f.csv:3: node m1 stands in line 2 too"},
		{servers + "m1,eight,24GB\n", `number of GPUs is "eight", want a whole number from 0 to 64`},
		{servers + "m1,8,\n", "f.csv:2: single GPU mem is empty"},
	} {
		if _, err := (Assumed{}).parseNodes("f.csv", strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("servers %q: %v, want an error with %q", tc.text, err, tc.want)
		}
	}
}

// TestPhillyLongJob: the reader gives up on what is no list of jobs, however long it is.
func TestPhillyLongJob(t *testing.T) {
	endless := endlessReader{}
	if _, err := (Assumed{}).parsePods("f.json", &endless); err == nil || !strings.Contains(err.Error(), "want a job's few lines") {
		t.Errorf("error %v, want one about the length of a job", err)
	}
	if endless.read > 4*maxJob {
		t.Errorf("%d bytes were read, want at most %d", endless.read, 4*maxJob)
	}
}

// TestPhillyManyJobs: the bound is on a job, not on the log.
func TestPhillyManyJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("a log of many megabytes; run without -short")
	}
	const job = `{"jobid": "a", "submitted_time": "2017-10-01 00:00:00", "attempts": [{"detail": [{"ip": "m", "gpus": ["gpu0"]}]}]},`
	n := 2*maxJob/len(job) + 1
	text := "[" + strings.TrimSuffix(strings.Repeat(job, n), ",") + "]"
	if pods, err := (Assumed{}).parsePods("f.json", strings.NewReader(text)); err != nil || len(pods) != n {
		t.Errorf("%d pods of %d jobs, %v", len(pods), n, err)
	}
}

// endlessReader is a list with a string that never ends.
type endlessReader struct{ read int }

func (e *endlessReader) Read(p []byte) (int, error) {
	if e.read > 1<<30 {
		return 0, errors.New("a GiB was read")
	}
	for i := range p {
		p[i] = 'x'
	}
	if e.read == 0 {
		copy(p, `["`)
	}
	e.read += len(p)
	return len(p), nil
}
