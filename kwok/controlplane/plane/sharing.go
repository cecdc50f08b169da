package plane

import (
	"context"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/core"
)

// sharePods installs the watch cache of sharedPods for pods in the API server, unless watch caches are off.
func sharePods(c *server.Config, etcd *options.EtcdOptions) error {
	sizes, err := options.ParseWatchCacheSizes(etcd.WatchCacheSizes)
	if err != nil {
		return err
	}
	if size, given := sizes[core.Resource("pods")]; etcd.EnableWatchCache && (!given || size > 0) {
		c.RESTOptionsGetter = sharedPods{c.RESTOptionsGetter}
	}
	return nil
}

// sharedPods gives pods a watch cache in which the versions of a pod share equal parts.
//
// The API server keeps every version of the last 75 s, each decoded separately, although most of a pod is the
// same in all of them. At some hundred pods per second that takes half a GB.
type sharedPods struct{ generic.RESTOptionsGetter }

func (g sharedPods) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if resource == core.Resource("pods") {
		o.Decorator = cachePods
	}
	return o, err
}

// cachePods is a [generic.StorageDecorator] like StorageWithCacher of apiserver's package registry, except for
// the watch that feeds the cache.
func cachePods(c *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
	newObject, newList func() runtime.Object, attrs storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	raw, destroy, err := generic.NewRawStorage(c, newObject, newList, prefix)
	if err != nil {
		return nil, nil, err
	}
	cached, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: sharingStorage{raw}, Versioner: storage.APIObjectVersioner{}, Codec: c.Codec,
		GroupResource: c.GroupResource, EventsHistoryWindow: c.EventsHistoryWindow, ResourcePrefix: prefix, KeyFunc: key,
		NewFunc: newObject, NewListFunc: newList, GetAttrsFunc: attrs, IndexerFuncs: triggers, Indexers: indexers,
	})
	if err != nil {
		destroy()
		return nil, nil, err
	}
	delegator := cacher.NewCacheDelegator(cached, raw)
	return delegator, sync.OnceFunc(func() {
		delegator.Stop()
		cached.Stop()
		destroy()
	}), nil
}

// sharingStorage is a storage of pods for a watch cache, which changes no object.
type sharingStorage struct{ storage.Interface }

func (s sharingStorage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	w, err := s.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	last := map[types.UID]*core.Pod{} // only the filter's goroutine uses it
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		pod, ok := e.Object.(*core.Pod)
		if !ok || e.Type == watch.Bookmark {
			return e, true
		}
		if old := last[pod.UID]; old != nil {
			share(pod, old)
		}
		last[pod.UID] = pod
		if e.Type == watch.Deleted {
			delete(last, pod.UID)
		}
		return e, true
	}), nil
}

// share replaces the parts of pod that equal those of old by references to old's.
func share(pod, old *core.Pod) {
	same(&pod.Labels, old.Labels)
	same(&pod.Annotations, old.Annotations)
	same(&pod.OwnerReferences, old.OwnerReferences)
	for i := range pod.ManagedFields {
		for _, o := range old.ManagedFields {
			same(&pod.ManagedFields[i].FieldsV1, o.FieldsV1)
		}
	}
	same(&pod.Spec.Volumes, old.Spec.Volumes)
	same(&pod.Spec.InitContainers, old.Spec.InitContainers)
	same(&pod.Spec.Containers, old.Spec.Containers)
	same(&pod.Spec.SecurityContext, old.Spec.SecurityContext)
	same(&pod.Spec.Affinity, old.Spec.Affinity)
	same(&pod.Spec.Tolerations, old.Spec.Tolerations)
	same(&pod.Spec.TopologySpreadConstraints, old.Spec.TopologySpreadConstraints)
	same(&pod.Status.Conditions, old.Status.Conditions)
	same(&pod.Status.PodIPs, old.Status.PodIPs)
	same(&pod.Status.ContainerStatuses, old.Status.ContainerStatuses)
}

func same[T any](part *T, old T) {
	if reflect.DeepEqual(*part, old) {
		*part = old
	}
}
