package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/pflag"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"k8s.io/autoscaler/vertical-pod-autoscaler/common"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/config"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/patch"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/vpa"
	clientset "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/clientset/versioned"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/features"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target"
	fetcher "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target/controller_fetcher"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/client"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/limitrange"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/status"
	vpautil "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"

	"github.com/kubernasium/kubernasium/kwok/extension"
)

// Names of the webhook, which are upstream's. Of two admission controllers, the later one replaces the other.
const (
	webhookConfig  = "vpa-webhook-config"
	webhookName    = "vpa.k8s.io"
	webhookSeconds = 5                // timeout of the API server's calls
	callPatience   = 20 * time.Second // until the API server calls a new webhook, which takes about a second
	closeTimeout   = 10 * time.Second
)

var errNoWebhooks = errors.New("the API server calls no mutating webhooks: start the control plane with --admission=MutatingAdmissionWebhook")

// admissionFlags are those of upstream's flags that matter here, and the webhook's address.
type admissionFlags struct {
	*config.AdmissionControllerConfig
	listen, host string
	stepped      bool
}

func (c *admissionFlags) parse(args []string) error {
	c.AdmissionControllerConfig = config.DefaultAdmissionControllerConfig()
	f := pflag.NewFlagSet("admission-controller", pflag.ContinueOnError)
	f.StringVar(&c.CommonFlags.KubeConfig, "kubeconfig", "", "kubeconfig of the API server; empty: the pod's service account")
	f.StringVar(&c.CommonFlags.VpaObjectNamespace, "vpa-object-namespace", "", "namespace of autoscalers and pods; empty: all")
	f.StringVar(&c.StatusLeaseNamespace, "status-lease-namespace", "", "namespace of the lease that shows the updater that this program runs; default kube-system")
	f.StringVar(&c.listen, "listen", "127.0.0.1:0", "address of the webhook")
	f.StringVar(&c.host, "webhook-address", "127.0.0.1", "name or address at which the API server reaches the webhook; the certificate is issued for it")
	f.BoolVar(&c.stepped, "lock-step", false, "for each line of stdin, wait until the caches are as new as the API server, and answer with a line of JSON")
	features.MutableFeatureGate.AddFlag(f)
	return f.Parse(args)
}

// runAdmission serves the webhook until ctx ends, and then removes its registration.
func runAdmission(ctx context.Context, args []string) error {
	var c admissionFlags
	if err := c.parse(args); errors.Is(err, pflag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	rc := common.CreateKubeConfigOrDie(c.CommonFlags.KubeConfig, float32(c.CommonFlags.KubeApiQps), int(c.CommonFlags.KubeApiBurst))
	a, err := newAdmission(ctx, rc, &c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.register(ctx); err != nil {
		return err
	}
	if err := a.showStatus(ctx); err != nil {
		return err
	}
	if c.stepped {
		return lockStep(ctx, os.Stdin, os.Stdout, func(ctx context.Context) (Reply, error) { return Reply{}, a.follow.wait(ctx) })
	}
	<-ctx.Done()
	return nil
}

// An admission is upstream's server and its registration.
type admission struct {
	flags   *admissionFlags
	kube    kubernetes.Interface
	follow  *follower
	serving *extension.Server
	once    sync.Once
	called  chan struct{} // closed at the first call
}

func newAdmission(ctx context.Context, rc *rest.Config, c *admissionFlags) (*admission, error) {
	kube, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, err
	}
	vpas, err := clientset.NewForConfig(rc)
	if err != nil {
		return nil, err
	}
	namespace := c.CommonFlags.VpaObjectNamespace
	factory := informers.NewSharedInformerFactoryWithOptions(kube, resyncPeriod, informers.WithNamespace(namespace), informers.WithTransform(client.StripManagedFields))
	_, index := vpautil.NewVpasListerWithIndexer(vpas, ctx.Done(), namespace)
	ranges, err := limitrange.NewLimitsRangeCalculator(factory)
	if err != nil {
		return nil, err
	}
	matcher := vpa.NewMatcher(index, target.NewVpaTargetSelectorFetcher(rc, kube, factory, ctx.Done()),
		fetcher.NewControllerFetcher(rc, kube, factory, scaleFreshness, scaleLifetime, scaleJitter, ctx.Done()))
	provider := recommendation.NewProvider(ranges, vpautil.NewCappingRecommendationProcessor(ranges))
	follow, err := newFollower(rc, namespace, factory)
	if err != nil {
		return nil, err
	}
	follow.caches = append(follow.caches, followed{autoscalerResource, "", func() versions { return versionsOf(index.List()) }})
	if err := synced(ctx, factory); err != nil {
		return nil, err
	}
	a := &admission{flags: c, kube: kube, follow: follow, called: make(chan struct{})}
	upstream := logic.NewAdmissionServer(pod.NewDefaultPreProcessor(), vpa.NewDefaultPreProcessor(), ranges, matcher,
		[]patch.Calculator{patch.NewResourceUpdatesCalculator(provider, c.MaxAllowedCPUBoost), patch.NewObservedContainersCalculator()})
	a.serving, err = extension.Start(extension.Config{Listen: c.listen, Names: []string{c.host}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.once.Do(func() { close(a.called) })
		upstream.Serve(w, r)
	})})
	return a, err
}

// register registers the webhook at the API server, and returns when the API server calls it.
func (a *admission) register(ctx context.Context) error {
	api := a.kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if err := api.Delete(ctx, webhookConfig, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("replace the webhook: %w", err)
	}
	if _, err := api.Create(ctx, a.webhook(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("register the webhook: %w", err)
	}
	namespace := a.flags.CommonFlags.VpaObjectNamespace
	namespace = cmp.Or(namespace, metav1.NamespaceDefault)
	waited, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	for {
		probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "vpa-probe-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "kubernasium.io/simulated"}}}}
		_, err := a.kube.CoreV1().Pods(namespace).Create(waited, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && waited.Err() == nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("try the webhook: %w", err)
		}
		select {
		case <-a.called:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-waited.Done():
			return errNoWebhooks
		case <-time.After(pollInterval):
		}
	}
}

// webhook returns upstream's registration, but with a URL, so that the calls need no Service.
func (a *admission) webhook() *registrationv1.MutatingWebhookConfiguration {
	url := "https://" + net.JoinHostPort(a.flags.host, strconv.Itoa(a.serving.Port))
	ignore, none, seconds := registrationv1.Ignore, registrationv1.SideEffectClassNone, int32(webhookSeconds)
	rule := func(group, resource string, on ...registrationv1.OperationType) registrationv1.RuleWithOperations {
		return registrationv1.RuleWithOperations{Operations: on, Rule: registrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}}}
	}
	hook := registrationv1.MutatingWebhook{
		Name: webhookName, ClientConfig: registrationv1.WebhookClientConfig{URL: &url, CABundle: a.serving.CABundle},
		Rules: []registrationv1.RuleWithOperations{
			rule("", "pods", registrationv1.Create),
			rule(autoscalerResource.Group, autoscalerResource.Resource, registrationv1.Create, registrationv1.Update),
		},
		FailurePolicy: &ignore, SideEffects: &none, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
	}
	if ns := a.flags.CommonFlags.VpaObjectNamespace; ns != "" {
		hook.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}}
	}
	return &registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhookConfig}, Webhooks: []registrationv1.MutatingWebhook{hook}}
}

// showStatus renews the lease without which the updater evicts nothing: at once, and then at upstream's
// interval.
func (a *admission) showStatus(ctx context.Context) error {
	holder, err := os.Hostname()
	if err != nil {
		return err
	}
	c, namespace := a.flags, cmp.Or(a.flags.StatusLeaseNamespace, a.flags.Namespace, status.AdmissionControllerStatusNamespace)
	if err := status.NewClient(a.kube, c.StatusLeaseName, namespace, c.StatusLeaseUpdateInterval, holder).UpdateStatus(ctx); err != nil {
		return fmt.Errorf("renew the lease %s/%s: %w", namespace, c.StatusLeaseName, err)
	}
	status.NewUpdater(a.kube, c.StatusLeaseName, namespace, c.StatusLeaseUpdateInterval, holder).Run(ctx.Done())
	return nil
}

// close removes the registration and stops serving.
func (a *admission) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := a.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, webhookConfig, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return errors.Join(err, a.serving.Close())
}
