// Command gangworker runs a task of a bulk-synchronous job in a pod. It waits until an annotation of its pod
// releases it, does its work with stress-ng, and reports the duration in the container's termination message.
// With --zookeeper it does so in each superstep of a ZooKeeper barrier, until the driver ends the job.
//
//	gangworker --work memcpy:9
//	gangworker --work memcpy:9 --zookeeper zookeeper:2181 --barrier /gang/job-1
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/bsp"
	"github.com/kubernasium/kubernasium/kwok/bsp/zkbarrier"
)

// watchTimeout is the time in seconds after which the worker renews its watch.
const watchTimeout = 60 // s

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "gangworker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string) error {
	var text, message, path, servers, barrier string
	f := flag.NewFlagSet("gangworker", flag.ContinueOnError)
	f.StringVar(&text, "work", "", "stressor of stress-ng and its operations for size 1, as in memcpy:9")
	f.StringVar(&message, "message", corev1.TerminationMessagePathDefault, "file of the container's termination message")
	f.StringVar(&path, "stress-ng", "stress-ng", "path of stress-ng")
	f.StringVar(&servers, "zookeeper", "", "servers of ZooKeeper, separated by commas")
	f.StringVar(&barrier, "barrier", "", "with --zookeeper: path of the job's barrier")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	works, err := bsp.ParseWorks([]string{text})
	if err != nil {
		return err
	}
	do := func(ctx context.Context, ops int64) error {
		cmd := exec.CommandContext(ctx, path, append(works[0].Args(os.TempDir()), strconv.FormatInt(ops, 10))...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		return nil
	}
	if (servers == "") != (barrier == "") {
		return errors.New("want both of --zookeeper and --barrier, or none")
	}
	if servers != "" {
		return zkbarrier.Work(ctx, strings.Split(servers, ","), barrier, works[0].Task, do)
	}
	// The client uses the pod's service account. A worker does not need to check the cluster's nodes.
	client, err := kwok.Connect(ctx, kwok.Options{AllowRealNodes: true})
	if err != nil {
		return err
	}
	ops, err := released(ctx, client, getenv("POD_NAMESPACE"), getenv("POD_NAME"))
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := do(ctx, ops); err != nil {
		return err
	}
	out, err := json.Marshal(bsp.Result{Seconds: time.Since(begin).Seconds()})
	if err != nil {
		return err
	}
	return os.WriteFile(message, out, 0o644)
}

// released waits until the annotation releases the pod, and returns the annotation's number of operations.
func released(ctx context.Context, client kubernetes.Interface, namespace, name string) (int64, error) {
	if namespace == "" || name == "" {
		return 0, errors.New("POD_NAMESPACE and POD_NAME are not set, want those of this pod by the downward API")
	}
	pods := client.CoreV1().Pods(namespace)
	for {
		p, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		if ops, err := opsOf(p); ops > 0 || err != nil {
			return ops, err
		}
		w, err := pods.Watch(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(), ResourceVersion: p.ResourceVersion, TimeoutSeconds: new(int64(watchTimeout)),
		})
		if err != nil {
			return 0, err
		}
		for e := range w.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok {
				if ops, err := opsOf(p); ops > 0 || err != nil {
					w.Stop()
					return ops, err
				}
			}
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
}

// opsOf returns the number of operations in a pod's annotation, or 0 before its release.
func opsOf(p *corev1.Pod) (int64, error) {
	text, ok := p.Annotations[bsp.AnnotationOps]
	if !ok {
		return 0, nil
	}
	ops, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ops < 1 {
		return 0, fmt.Errorf("annotation %s is %q, want a number of operations", bsp.AnnotationOps, text)
	}
	return ops, nil
}
