package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/kubernasium/kubernasium/kwok/poll"
)

const (
	stepTimeout  = 60 * time.Second // timeout of a step; caches follow within milliseconds
	pollInterval = 10 * time.Millisecond
)

// A Reply is a line of the lock-step protocol. The first line reports that the program is ready; each further
// one answers a line of the caller's.
type Reply struct {
	Error   string `json:"error,omitempty"`
	Evicted int    `json:"evicted"` // pods, since the previous line
	Resized int    `json:"resized"`
}

// lockStep runs a step for each line of in and writes its reply to out, until in or ctx ends.
func lockStep(ctx context.Context, in io.Reader, out io.Writer, step func(context.Context) (Reply, error)) error {
	lines := make(chan struct{})
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(in); scan.Scan(); {
			lines <- struct{}{}
		}
	}()
	answer := json.NewEncoder(out)
	if err := answer.Encode(Reply{}); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-lines:
			if !ok {
				return nil
			}
			reply, err := timed(ctx, step)
			if err != nil {
				reply.Error = err.Error()
			}
			if err := answer.Encode(reply); err != nil {
				return err
			}
		}
	}
}

func timed(ctx context.Context, step func(context.Context) (Reply, error)) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return step(ctx)
}

// versions maps each object to its resource version.
type versions map[types.UID]string

// A follower compares caches with the API server.
type follower struct {
	api       metadata.Interface
	namespace string
	caches    []followed
}

// followed is the cache of one kind.
type followed struct {
	resource schema.GroupVersionResource
	fields   string // field selector of its list
	versions func() versions
}

var (
	podResource        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	autoscalerResource = schema.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"}
	controllers        = []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "replicasets"},
		{Group: "apps", Version: "v1", Resource: "statefulsets"}, {Group: "apps", Version: "v1", Resource: "daemonsets"},
	}
)

// newFollower returns a follower of the caches of controllers that upstream's fetchers keep.
func newFollower(rc *rest.Config, namespace string, f informers.SharedInformerFactory) (*follower, error) {
	api, err := metadata.NewForConfig(rc)
	if err != nil {
		return nil, err
	}
	follow := &follower{api: api, namespace: namespace}
	for _, r := range controllers {
		if err := follow.add(r, "", f); err != nil {
			return nil, err
		}
	}
	return follow, nil
}

func (f *follower) add(r schema.GroupVersionResource, fields string, from informers.SharedInformerFactory) error {
	informer, err := from.ForResource(r)
	if err != nil {
		return err
	}
	f.caches = append(f.caches, followed{r, fields, func() versions { return versionsOf(informer.Informer().GetStore().List()) }})
	return nil
}

func versionsOf(objects []any) versions {
	all := versions{}
	for _, o := range objects {
		if m, ok := o.(metav1.Object); ok {
			all[m.GetUID()] = m.GetResourceVersion()
		}
	}
	return all
}

// wait returns when every cache is as new as the API server.
func (f *follower) wait(ctx context.Context) error {
	for _, c := range f.caches {
		for {
			want, err := f.list(ctx, c.resource, c.fields)
			if err != nil {
				return err
			}
			if maps.Equal(c.versions(), want) {
				break
			}
			if err := poll.Sleep(ctx, pollInterval); err != nil {
				return fmt.Errorf("the cache of %s stays behind: %w", c.resource.Resource, err)
			}
		}
	}
	return nil
}

func (f *follower) list(ctx context.Context, r schema.GroupVersionResource, fields string) (versions, error) {
	list, err := f.api.Resource(r).Namespace(f.namespace).List(ctx, metav1.ListOptions{FieldSelector: fields})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", r.Resource, err)
	}
	all := versions{}
	for i := range list.Items {
		all[list.Items[i].UID] = list.Items[i].ResourceVersion
	}
	return all, nil
}

// synced starts the factory's caches and waits until they are filled.
func synced(ctx context.Context, f informers.SharedInformerFactory) error {
	f.Start(ctx.Done())
	for kind, ok := range f.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return fmt.Errorf("the cache of %v is not filled: %w", kind, context.Cause(ctx))
		}
	}
	return nil
}
