package gpushare

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Columns of cluster_machine_list of Microsoft's Philly trace.
//
// Source of this and of the format of cluster_job_log: README.md and the notebook of
// https://github.com/msr-fiddle/philly-traces. Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN
// Training Workloads", USENIX ATC 2019.
var serverColumns = []string{"machineId", "number of GPUs", "single GPU mem"}

// phillyServer is an eighth of 24 CPUs and 500 GiB, the server with 8 GPUs in the simulator of Mohan et al. (see
// [Assumed]), of the same company. cluster_mem_util of the trace has servers of 504 GiB.
var phillyServer = Assumed{MilliCPU: 3000, MemoryMiB: 64000}

// server returns the node of a row of cluster_machine_list. The trace gives no GPU model; the memory of a GPU stands
// for it.
func (t *table) server(a Assumed) Node {
	n := Node{Name: t.text("machineId"), GPUs: int(t.number("number of GPUs", cluster.MaxDevices))}
	if n.GPUs > 0 {
		if n.Model = t.text("single GPU mem"); n.Model == "" {
			t.fail("single GPU mem is empty, want the memory of each of %d GPUs, which stands for their model", n.GPUs)
		}
	}
	n.MilliCPU, n.MemoryMiB = int64(n.GPUs)*a.MilliCPU, int64(n.GPUs)*a.MemoryMiB
	return n
}

// phillyJob is an entry of cluster_job_log. Null is "".
type phillyJob struct {
	ID        string `json:"jobid"`
	Submitted string `json:"submitted_time"`
	Attempts  []struct {
		Start  string `json:"start_time"`
		End    string `json:"end_time"`
		Detail []struct {
			Server string   `json:"ip"`
			GPUs   []string `json:"gpus"`
		} `json:"detail"`
	} `json:"attempts"`
}

// phillyJobs reads cluster_job_log, a list of jobs in JSON: a pod for each server of a job's first attempt, with the
// GPUs that the job got there; the trace does not give the requested ones. A pod runs from the start of the first
// attempt to the end of the last one; if one of these is missing, its duration is unknown. phillyJobs omits jobs
// without an attempt and servers without a GPU. Pods are in the order of their submissions; the first is the beginning
// of the trace.
func (a Assumed) phillyJobs(name string, r io.Reader) ([]Pod, error) {
	in := &lines{r: r}
	dec := json.NewDecoder(in)
	fail := func(at int64, format string, args ...any) error {
		return fmt.Errorf("gpu: %s:%d: %w", name, in.at(at), fmt.Errorf(format, args...))
	}
	broken := func(what string, err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fail(in.read, "the list of jobs has no end: %w", io.ErrUnexpectedEOF)
		}
		return fail(dec.InputOffset(), what+"%w", err)
	}
	if _, err := dec.Token(); err != nil { // the bracket that parsePods has peeked at
		return nil, broken("", err)
	}
	var pods []Pod
	for dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, broken("job after this line: ", err)
		}
		begin := dec.InputOffset() - int64(len(raw))
		var job phillyJob
		if err := json.Unmarshal(raw, &job); err != nil {
			return nil, fail(begin, "job: %w", err)
		}
		some, err := a.phillyPods(&job)
		if err != nil {
			return nil, fail(begin, "job %q: %w", job.ID, err)
		}
		pods = append(pods, some...)
		in.at(begin)
	}
	if _, err := dec.Token(); err != nil {
		return nil, broken("", err)
	}
	end := dec.InputOffset()
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fail(end, "more after the list of jobs, want its end")
	}
	if len(pods) == 0 {
		return nil, fail(end, "no pod")
	}
	sinceFirst(pods)
	if last := &pods[len(pods)-1]; last.Created > cluster.MaxTime {
		return nil, fail(end, "pod %s is submitted %v after the first, want at most %v", last.Name, last.Created, cluster.MaxTime)
	}
	return pods, nil
}

// phillyPods returns the pods of a job, with the time of its submission since 1970.
func (a Assumed) phillyPods(job *phillyJob) ([]Pod, error) {
	if job.ID == "" {
		return nil, errors.New("jobid is empty, want the job's id")
	}
	submitted, err := clock("submitted_time", job.Submitted)
	if err != nil || len(job.Attempts) == 0 {
		return nil, err
	}
	if submitted == 0 {
		return nil, fmt.Errorf("submitted_time is %q, want a time like %s", job.Submitted, clockLayout)
	}
	start, err := clock("start_time", job.Attempts[0].Start)
	if err != nil {
		return nil, err
	}
	end, err := clock("end_time", job.Attempts[len(job.Attempts)-1].End)
	if err != nil {
		return nil, err
	}
	if start == 0 {
		end = 0
	}
	var pods []Pod
	for i, server := range job.Attempts[0].Detail {
		switch n := len(server.GPUs); {
		case n > cluster.MaxDevices:
			return nil, fmt.Errorf("%d GPUs on server %q, want 0 to %d", n, server.Server, cluster.MaxDevices)
		case n > 0:
			pods = append(pods, Pod{Name: fmt.Sprintf("%s/%d", job.ID, i), Shape: a.gpus(n), Created: submitted, Duration: max(0, end-start)})
		}
	}
	return pods, nil
}

// clockLayout is the layout of times in Philly and Helios, of an unknown time zone.
const clockLayout = time.DateTime

// clock returns the time in a field since 1970; 0 if the trace has none.
func clock(name, field string) (time.Duration, error) {
	if field == "" || field == "None" {
		return 0, nil
	}
	at, err := time.Parse(clockLayout, field)
	if err != nil || at.Year() < 1971 || at.Year() > 2200 { // a time.Duration reaches 292 years
		return 0, fmt.Errorf("%s is %q, want a time from 1971 to 2200 like %s", name, field, clockLayout)
	}
	return time.Duration(at.Unix()) * time.Second, nil
}

// maxJob bounds the bytes of a job in cluster_job_log.
const maxJob = 16 << 20

// lines counts the lines of a JSON stream, so that errors can name the line.
type lines struct {
	r       io.Reader
	read    int64   // bytes
	counted int64   // of these, by at
	line    int     // ends of lines before counted
	ends    []int64 // offsets of the later ends of lines
}

// Read implements [io.Reader]. It returns an error after reading more than maxJob bytes beyond the last call of at.
func (l *lines) Read(p []byte) (int, error) {
	if l.read-l.counted > maxJob {
		return 0, fmt.Errorf("more than %d bytes, want a job's few lines", maxJob)
	}
	n, err := l.r.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			l.ends = append(l.ends, l.read+int64(i))
		}
	}
	l.read += int64(n)
	return n, err
}

// at returns the line of an offset in the stream, which must be no less than in the last call.
func (l *lines) at(offset int64) int {
	l.counted = offset
	for len(l.ends) > 0 && l.ends[0] < offset {
		l.ends = l.ends[1:]
		l.line++
	}
	return l.line + 1
}

// isJSON reports whether r begins with a JSON list.
func isJSON(r *bufio.Reader) bool {
	begin, _ := r.Peek(64) // fewer at the end of the file
	return bytes.HasPrefix(bytes.TrimSpace(begin), []byte("["))
}
