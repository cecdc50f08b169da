package kwok

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernasium/kubernasium/kwok/poll"
)

const (
	firstRetry = 20 * time.Millisecond // after a watch has failed; doubled up to lastRetry
	lastRetry  = time.Second           // watches that hold for longer begin with firstRetry again
)

// A watcher maintains one kind of objects in a view. When a watch ends, it resumes at once from the last
// version seen: a new API server has a small watch cache at first, and drops slow watchers many times in a
// burst. After a short watch without any event it waits. If the server rejects the resumption, the watcher lists again.
type watcher struct {
	kind  string
	list  func(ctx context.Context) (runtime.Object, error)
	watch func(ctx context.Context, from string) (watch.Interface, error)
	view  *view

	lists, resumed atomic.Int64 // number of lists
}

// run maintains the view until ctx ends.
func (w *watcher) run(ctx context.Context) {
	retry := firstRetry
	for ctx.Err() == nil {
		begun := time.Now()
		from, err := w.relist(ctx)
		if err == nil {
			err = w.follow(ctx, from)
			if time.Since(begun) > lastRetry {
				retry = firstRetry
			}
		}
		if ctx.Err() != nil {
			return
		}
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			w.view.watching(w.kind, fmt.Errorf("%ss: %w", w.kind, err))
		}
		_ = poll.Sleep(ctx, retry) // the loop ends with ctx
		retry = min(2*retry, lastRetry)
	}
}

// relist replaces the view's objects and returns the version of the list.
func (w *watcher) relist(ctx context.Context) (at string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	l, err := w.list(ctx)
	if err != nil {
		return "", err
	}
	all := map[key]seen{}
	err = meta.EachListItem(l, func(o runtime.Object) error {
		k, s, _ := observe(o)
		all[k] = s
		return nil
	})
	if err != nil {
		return "", err
	}
	listed, err := meta.ListAccessor(l)
	if err != nil {
		return "", err
	}
	w.lists.Add(1)
	w.view.replace(w.kind, all)
	w.view.watching(w.kind, nil)
	return listed.GetResourceVersion(), nil
}

// follow watches from a version on, by any number of watches, until the server rejects one.
func (w *watcher) follow(ctx context.Context, from string) error {
	for {
		begun, before := time.Now(), from
		events, err := w.watch(ctx, from)
		if err != nil {
			return err
		}
		from, err = w.consume(events, from)
		events.Stop()
		if err != nil || ctx.Err() != nil {
			return err
		}
		w.resumed.Add(1)
		if from == before && time.Since(begun) < firstRetry {
			if err := poll.Sleep(ctx, firstRetry); err != nil {
				return err
			}
		}
	}
}

// consume passes events to the view until the watch ends, and returns the last version seen.
func (w *watcher) consume(events watch.Interface, from string) (string, error) {
	for e := range events.ResultChan() {
		if e.Type == watch.Error {
			return from, apierrors.FromObject(e.Object)
		}
		k, s, at := observe(e.Object)
		if at == "" {
			return from, fmt.Errorf("watch showed a %T", e.Object)
		}
		from = at
		switch e.Type {
		case watch.Added, watch.Modified:
			w.view.show(k, s)
		case watch.Deleted:
			w.view.gone(k)
		}
	}
	return from, nil
}

// observe returns the key, record and version of an object; the version is "" for other objects.
func observe(o runtime.Object) (k key, s seen, at string) {
	switch o := o.(type) {
	case *corev1.Pod:
		return key{kindPod, o.Name}, seen{havePod(o), parseVersion(o.ResourceVersion)}, o.ResourceVersion
	case *corev1.Node:
		return key{kindNode, o.Name}, seen{haveNode(o), parseVersion(o.ResourceVersion)}, o.ResourceVersion
	}
	return key{}, seen{}, ""
}

// parseVersion returns a resource version as a number, or 0 if it is not one; 0 delays nothing.
func parseVersion(text string) version {
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return version(v)
}

// watchers returns the watchers of the pods and nodes of an environment.
func watchers(client kubernetes.Interface, namespace string, v *view) []*watcher {
	ofEnvironment := labelEnvironment + "=" + namespace
	pods, nodes := client.CoreV1().Pods(namespace), client.CoreV1().Nodes()
	return []*watcher{{
		kind: kindPod, view: v,
		list: func(ctx context.Context) (runtime.Object, error) { return pods.List(ctx, metav1.ListOptions{}) },
		watch: func(ctx context.Context, from string) (watch.Interface, error) {
			return pods.Watch(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true})
		},
	}, {
		kind: kindNode, view: v,
		list: func(ctx context.Context) (runtime.Object, error) {
			return nodes.List(ctx, metav1.ListOptions{LabelSelector: ofEnvironment})
		},
		watch: func(ctx context.Context, from string) (watch.Interface, error) {
			return nodes.Watch(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true, LabelSelector: ofEnvironment})
		},
	}}
}
