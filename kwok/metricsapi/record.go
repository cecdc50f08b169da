package metricsapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
)

// RecordConfig holds the arguments of [Record].
type RecordConfig struct {
	REST      *rest.Config // configuration for an API server that serves metrics.k8s.io
	Namespace string       // "": all
	Selector  string       // of the pods' labels; "": all
	Interval  time.Duration
	Samples   int // number of samples; 0: until the context ends

	// Warn is called with the error of each failed sample, and about containers with unknown
	// requests.
	Warn func(error)
}

// Recording is the result of [Record].
type Recording struct {
	Samples    int       `json:"samples"`    // lists written
	Failed     int       `json:"failed"`     // failed samples
	Containers int       `json:"containers"` // number of distinct pods and containers
	Readings   int       `json:"readings"`   // readings of single containers, summed over the samples
	First      time.Time `json:"first"`      // of their times
	Last       time.Time `json:"last"`
}

// Record requests the usage of pods from the metrics API at an interval and writes each reply to out as a line
// of JSON, a PodMetricsList. If there are new containers, and Record may list pods, it first writes a PodList
// that holds only their requests and limits. Each line is one Write. Package workload reads such files.
//
// The first request must succeed. Later ones may fail; Warn gets their errors. If ctx ends before all samples
// are taken, the error is ctx's, and the recording holds the samples so far.
func Record(ctx context.Context, out io.Writer, c RecordConfig) (Recording, error) {
	r := &recorder{config: c, out: out, known: map[string]bool{}}
	if c.Interval <= 0 || c.Samples < 0 {
		return r.Recording, fmt.Errorf("metricsapi: interval %v and %d samples, want more than 0, and 0 or more", c.Interval, c.Samples)
	}
	var err error
	if r.metrics, err = metricsv1beta1.NewForConfig(c.REST); err != nil {
		return r.Recording, err
	}
	if r.client, err = kubernetes.NewForConfig(c.REST); err != nil {
		return r.Recording, err
	}
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for {
		if err := r.sample(ctx); err != nil {
			return r.Recording, err
		}
		if r.Samples+r.Failed == c.Samples {
			return r.Recording, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return r.Recording, ctx.Err()
		}
	}
}

// recorder is the state of a recording.
type recorder struct {
	Recording
	config  RecordConfig
	metrics metricsv1beta1.MetricsV1beta1Interface
	client  kubernetes.Interface
	out     io.Writer
	known   map[string]bool // containers in earlier samples
	owed    bool            // requests of known containers are still to be written
	mute    bool            // pods cannot be listed, and Warn has been called
}

// sample takes one sample.
func (r *recorder) sample(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := r.metrics.PodMetricses(r.config.Namespace).List(limited, metav1.ListOptions{LabelSelector: r.config.Selector})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case r.Samples == 0:
		return fmt.Errorf("metricsapi: list the metrics of pods: %w", err)
	default:
		r.Failed++
		r.config.Warn(err)
		return nil
	}
	if r.count(list) {
		r.owed = true
	}
	if r.owed {
		err := r.requests(limited)
		r.owed = err != nil && !apierrors.IsForbidden(err) // a missing right stays missing; another failure may pass
		if err != nil && ctx.Err() == nil && !r.mute {
			r.mute = true
			r.config.Warn(fmt.Errorf("what containers request is not recorded: %w", err))
		}
	}
	list.TypeMeta = metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "PodMetricsList"}
	r.Samples++
	return r.write(list)
}

// count counts the readings of a list, and reports whether the list has new containers.
func (r *recorder) count(list *v1beta1.PodMetricsList) (news bool) {
	for i := range list.Items {
		p := &list.Items[i]
		for _, c := range p.Containers {
			r.Readings++
			if key := p.Namespace + "/" + p.Name + "/" + c.Name; !r.known[key] {
				r.known[key], news = true, true
				r.Containers++
			}
		}
		if t := p.Timestamp.Time; r.First.IsZero() || t.Before(r.First) {
			r.First = t
		}
		if t := p.Timestamp.Time; t.After(r.Last) {
			r.Last = t
		}
	}
	return news
}

// requests writes the requests of the recorded pods' containers.
func (r *recorder) requests(ctx context.Context) error {
	pods, err := r.client.CoreV1().Pods(r.config.Namespace).List(ctx, metav1.ListOptions{LabelSelector: r.config.Selector})
	if err != nil {
		return err
	}
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for i := range pods.Items {
		p := &pods.Items[i]
		one := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
		for _, c := range p.Spec.Containers {
			if r.known[p.Namespace+"/"+p.Name+"/"+c.Name] {
				one.Spec.Containers = append(one.Spec.Containers, corev1.Container{Name: c.Name, Resources: c.Resources})
			}
		}
		if len(one.Spec.Containers) > 0 {
			list.Items = append(list.Items, one)
		}
	}
	return r.write(list)
}

func (r *recorder) write(object any) error {
	line, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = r.out.Write(append(line, '\n'))
	return err
}
