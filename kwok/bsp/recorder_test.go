package bsp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/kubernasium/kubernasium/kwok"
)

// recorder watches all Jobs and pods, beside the code under test.
type recorder struct {
	mu        sync.Mutex
	namespace string
	jobs      []string            // events, in order: "+NAME" and "complete NAME"
	steps     map[string]string   // of Jobs
	pods      map[string]*podSeen // by namespace, superstep and task
}

// podSeen is what was seen of the pods of a task in a superstep.
type podSeen struct {
	uids     map[string]bool
	milliCPU []int64 // that they have had, in order
}

func record(t *testing.T, server kwok.Options) *recorder {
	t.Helper()
	client, err := kwok.Connect(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{steps: map[string]string{}, pods: map[string]*podSeen{}}
	// A fresh API server drops slow watchers, which resume.
	jobs, pods := client.BatchV1().Jobs(""), client.CoreV1().Pods("")
	jobList, err := jobs.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	podList, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	jobEvents, err := watchtools.NewRetryWatcherWithContext(ctx, jobList.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: jobs.Watch})
	if err != nil {
		t.Fatal(err)
	}
	podEvents, err := watchtools.NewRetryWatcherWithContext(ctx, podList.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: pods.Watch})
	if err != nil {
		t.Fatal(err)
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		for e := range jobEvents.ResultChan() {
			if j, ok := e.Object.(*batchv1.Job); ok {
				r.job(j)
			}
		}
	})
	watching.Go(func() {
		for e := range podEvents.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok {
				r.pod(p)
			}
		}
	})
	t.Cleanup(func() { jobEvents.Stop(); podEvents.Stop(); watching.Wait() })
	return r
}

// in forgets other namespaces: those of earlier tests, which are being deleted.
func (r *recorder) in(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.namespace = namespace
}

func (r *recorder) job(j *batchv1.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := j.Namespace + "/" + j.Name
	if _, ok := r.steps[name]; !ok {
		r.steps[name] = j.Labels[labelSuperstep]
		r.jobs = append(r.jobs, "+"+name)
	}
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue && j.DeletionTimestamp == nil {
			r.jobs = append(r.jobs, "complete "+name)
		}
	}
}

func (r *recorder) pod(p *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := p.Namespace + "/" + p.Labels[labelSuperstep] + "/" + p.Labels[labelTask]
	s := r.pods[key]
	if s == nil {
		s = &podSeen{uids: map[string]bool{}}
		r.pods[key] = s
	}
	s.uids[string(p.UID)] = true
	have := allocated(p)
	if have > 0 && p.DeletionTimestamp == nil && (len(s.milliCPU) == 0 || s.milliCPU[len(s.milliCPU)-1] != have) {
		s.milliCPU = append(s.milliCPU, have)
	}
}

// shares says what is wrong with the pods of a task in a superstep, if anything is.
func (r *recorder) shares(step, task string, want []int64, pods int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.pods[r.namespace+"/"+step+"/"+task]
	if s == nil {
		return "no pod of task " + task + " was seen"
	}
	if !slices.Equal(s.milliCPU, want) || len(s.uids) != pods {
		return fmt.Sprintf("task %s had %d pods with %v millicores, want %d with %v", task, len(s.uids), s.milliCPU, pods, want)
	}
	return ""
}

// barrier says what is wrong with the order of Jobs, if anything is: none may be created before the
// three of each earlier superstep that were not deleted are complete.
func (r *recorder) barrier(want int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	created, complete := 0, map[string]map[string]bool{}
	for _, e := range r.jobs {
		name, ended := strings.CutPrefix(e, "complete ")
		name = strings.TrimPrefix(name, "+")
		if !strings.HasPrefix(name, r.namespace+"/") {
			continue
		}
		step := r.steps[name]
		if complete[step] == nil {
			complete[step] = map[string]bool{}
		}
		if ended {
			complete[step][name] = true
			continue
		}
		created++
		for before := 0; strconv.Itoa(before) != step; before++ {
			if n := len(complete[strconv.Itoa(before)]); n != 3 {
				return fmt.Sprintf("job %s was created when %d of 3 Jobs of superstep %d were complete", name, n, before)
			}
		}
	}
	if created != want {
		return fmt.Sprintf("the watch saw %d Jobs, want %d", created, want)
	}
	return ""
}
