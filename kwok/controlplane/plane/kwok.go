package plane

import (
	"context"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/clock"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/client/clientset/versioned"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/gotpl"
)

// Numbers of stages that KWOK plays in parallel. 32 workers were no faster than 16.
const (
	podWorkers  = 16
	nodeWorkers = 8
)

// startKWOK starts KWOK's controllers of nodes and pods, which end with ctx. They manage every node. Stages
// read the time from c.
func startKWOK(ctx context.Context, rc *rest.Config, stages []*internalversion.Stage, c clock.Clock) error {
	ctx = log.NewContext(ctx, log.NewLogger(os.Stderr, log.LevelError)) // otherwise it logs a line for each patch
	conf := controllers.Config{
		Clock: c, ManageAllNodes: true, CIDR: podCIDR, NodeIP: kwokNodeIP,
		PodPlayStageParallelism: podWorkers, NodePlayStageParallelism: nodeWorkers,
		PodsOnNodeSyncParallelism: 4, EnablePodsOnNodeSyncStreamWatch: true,
		LocalStages: map[internalversion.StageResourceRef][]*internalversion.Stage{},
		FuncMap:     gotpl.FuncMap{"Now": func() string { return c.Now().UTC().Format(time.RFC3339Nano) }},
	}
	for _, s := range stages {
		conf.LocalStages[s.Spec.ResourceRef] = append(conf.LocalStages[s.Spec.ResourceRef], s)
	}
	if err := kwokClients(rc, &conf); err != nil {
		return err
	}
	var err error
	if conf.ID, err = controllers.Identity(); err != nil {
		return err
	}
	ctr, err := controllers.NewController(conf)
	if err != nil {
		return err
	}
	return ctr.Start(ctx)
}

// kwokClients sets the clients of conf. The typed one speaks protobuf; KWOK's own objects and
// unstructured ones are JSON.
func kwokClients(rc *rest.Config, conf *controllers.Config) error {
	var err error
	if conf.TypedClient, err = kubernetes.NewForConfig(rc); err != nil {
		return err
	}
	plain := rest.CopyConfig(rc)
	plain.ContentConfig = rest.ContentConfig{}
	if conf.DynamicClient, err = dynamic.NewForConfig(plain); err != nil {
		return err
	}
	if conf.TypedKwokClient, err = versioned.NewForConfig(plain); err != nil {
		return err
	}
	disc, err := discovery.NewDiscoveryClientForConfig(plain)
	if err != nil {
		return err
	}
	conf.RESTMapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disc))
	raw := rest.CopyConfig(plain)
	raw.GroupVersion = &schema.GroupVersion{}
	raw.NegotiatedSerializer = resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer
	conf.RESTClient, err = rest.RESTClientFor(raw)
	return err
}
