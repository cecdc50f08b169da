package metricsapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/kubernasium/kubernasium/kwok/extension"
	"github.com/kubernasium/kubernasium/kwok/poll"
)

const (
	serviceNamespace = "kube-system"
	serviceName      = "kubernasium-metrics"
	apiServiceName   = "v1beta1.metrics.k8s.io"
	manager          = "kubernasium-metrics"

	availableTimeout = 60 * time.Second // the API server checks at once, and then again after some seconds
	availablePoll    = 50 * time.Millisecond
	callTimeout      = 30 * time.Second
	keepPoll         = time.Second // between checks of the registration
)

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// Config configures a Server.
type Config struct {
	REST   *rest.Config  // of the API server
	Listen string        // default: 127.0.0.1 and a free port
	Host   string        // name at which the API server reaches us; default: localhost
	Window time.Duration // window of a sample; default: 1 min
}

// A Server serves metrics.k8s.io through an API server.
type Server struct {
	config  Config
	client  kubernetes.Interface
	api     dynamic.Interface
	callers []string // names in the certificates of permitted callers
	serving *extension.Server
}

// Start serves metrics.k8s.io and registers it with an APIService for a Service of type ExternalName. It
// replaces an older registration, and returns when the API server serves the API.
func Start(ctx context.Context, c Config) (*Server, error) {
	c.Host = cmp.Or(c.Host, "localhost")
	c.Window = cmp.Or(c.Window, time.Minute)
	api, err := dynamic.NewForConfig(c.REST)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(c.REST)
	if err != nil {
		return nil, err
	}
	s := &Server{config: c, client: client, api: api}
	callers, err := s.aggregator(ctx)
	if err != nil {
		return nil, err
	}
	s.serving, err = extension.Start(extension.Config{
		Listen: c.Listen, Names: []string{serviceName + "." + serviceNamespace + ".svc"}, ClientCAs: callers, Handler: s.handler(),
	})
	if err != nil {
		return nil, err
	}
	if err := s.register(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// aggregator returns the authority of the certificate with which the API server calls, as the API server
// publishes it, and records the permitted names.
func (s *Server) aggregator(ctx context.Context) (*x509.CertPool, error) {
	const name = "extension-apiserver-authentication"
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for {
		m, err := s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM([]byte(m.Data["requestheader-client-ca-file"])) {
				return nil, fmt.Errorf("metricsapi: config map %s has no requestheader-client-ca-file: the API server aggregates no APIs", name)
			}
			return pool, json.Unmarshal([]byte(m.Data["requestheader-allowed-names"]), &s.callers)
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("metricsapi: config map %s: %w", name, err)
		}
		if err := poll.Sleep(ctx, availablePoll); err != nil { // a new API server writes it only after it is ready
			return nil, fmt.Errorf("metricsapi: config map %s: %w", name, err)
		}
	}
}

// register creates or replaces Service and APIService, and waits until the APIService is available.
func (s *Server) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, availableTimeout)
	defer cancel()
	service := map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": serviceName, "namespace": serviceNamespace},
		"spec": map[string]any{"type": "ExternalName", "externalName": s.config.Host},
	}
	apiService := map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": apiServiceName},
		"spec": map[string]any{
			"group": v1beta1.GroupName, "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"service":  map[string]any{"namespace": serviceNamespace, "name": serviceName, "port": int64(s.serving.Port)},
			"caBundle": s.bundle(),
		},
	}
	options := metav1.ApplyOptions{FieldManager: manager, Force: true}
	if _, err := s.api.Resource(corev1.SchemeGroupVersion.WithResource("services")).Namespace(serviceNamespace).
		Apply(ctx, serviceName, &unstructured.Unstructured{Object: service}, options); err != nil {
		return fmt.Errorf("metricsapi: service %s: %w", serviceName, err)
	}
	if _, err := s.api.Resource(apiServices).Apply(ctx, apiServiceName, &unstructured.Unstructured{Object: apiService}, options); err != nil {
		return fmt.Errorf("metricsapi: API service %s: %w", apiServiceName, err)
	}
	var last error
	for {
		// Request the API as clients do: the condition Available may still be that of an older registration.
		_, err := s.client.CoreV1().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/nodes").DoRaw(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		if err := poll.Sleep(ctx, availablePoll); err != nil {
			return fmt.Errorf("metricsapi: the API server does not reach us at %s, port %d: %w: %w", s.config.Host, s.serving.Port, err, last)
		}
	}
}

// Keep registers the server again whenever another server replaces the registration and then removes its own,
// until ctx ends.
func (s *Server) Keep(ctx context.Context) error {
	for poll.Sleep(ctx, keepPoll) == nil {
		_, err := s.api.Resource(apiServices).Get(ctx, apiServiceName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			err = s.register(ctx)
		}
		if err != nil && ctx.Err() == nil && !transient(err) {
			return err
		}
	}
	return nil
}

// transient reports whether a retry may succeed after this error of the API server.
func transient(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err)
}

// bundle is our certificate's authority as API objects hold it: base64, JSON's form of bytes.
func (s *Server) bundle() string {
	text, err := json.Marshal(s.serving.CABundle)
	if err != nil {
		panic(err) // bytes can be marshalled
	}
	return string(bytes.Trim(text, `"`))
}

// Close removes the registration, unless another server has replaced it, and stops serving.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	var errs []error
	found, err := s.api.Resource(apiServices).Get(ctx, apiServiceName, metav1.GetOptions{})
	if err == nil {
		if ours, _, _ := unstructured.NestedString(found.Object, "spec", "caBundle"); ours == s.bundle() {
			for _, err := range []error{
				s.api.Resource(apiServices).Delete(ctx, apiServiceName, metav1.DeleteOptions{}),
				s.client.CoreV1().Services(serviceNamespace).Delete(ctx, serviceName, metav1.DeleteOptions{}),
			} {
				if err != nil && !apierrors.IsNotFound(err) {
					errs = append(errs, fmt.Errorf("metricsapi: %w", err))
				}
			}
		}
	} else if !apierrors.IsNotFound(err) {
		errs = append(errs, fmt.Errorf("metricsapi: API service %s: %w", apiServiceName, err))
	}
	return errors.Join(append(errs, s.serving.Close())...)
}

// handler serves the requests that the API server forwards.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	const root = "/apis/metrics.k8s.io"
	version := metav1.GroupVersionForDiscovery{GroupVersion: v1beta1.SchemeGroupVersion.String(), Version: "v1beta1"}
	group := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: v1beta1.GroupName,
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	verbs := metav1.Verbs{"get", "list"}
	show := func(path string, v any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { answer(w, v, nil) })
	}
	show("/apis", metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{group}})
	show(root, group)
	show(root+"/v1beta1", metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: version.GroupVersion,
		APIResources: []metav1.APIResource{
			{Name: "nodes", Kind: "NodeMetrics", Verbs: verbs},
			{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: verbs},
		},
	})
	mux.HandleFunc("GET "+root+"/v1beta1/nodes", func(w http.ResponseWriter, r *http.Request) {
		list, err := s.nodes(r.Context(), selectors(r))
		answer(w, list, err)
	})
	mux.HandleFunc("GET "+root+"/v1beta1/nodes/{name}", func(w http.ResponseWriter, r *http.Request) {
		list, err := s.nodes(r.Context(), named(r))
		if err == nil && len(list.Items) == 1 {
			answer(w, list.Items[0], nil)
			return
		}
		answer(w, nil, missing(err, "nodes", r))
	})
	pods := func(w http.ResponseWriter, r *http.Request) {
		list, err := s.pods(r.Context(), r.PathValue("namespace"), selectors(r))
		answer(w, list, err)
	}
	mux.HandleFunc("GET "+root+"/v1beta1/pods", pods)
	mux.HandleFunc("GET "+root+"/v1beta1/namespaces/{namespace}/pods", pods)
	mux.HandleFunc("GET "+root+"/v1beta1/namespaces/{namespace}/pods/{name}", func(w http.ResponseWriter, r *http.Request) {
		list, err := s.pods(r.Context(), r.PathValue("namespace"), named(r))
		if err == nil && len(list.Items) == 1 {
			answer(w, list.Items[0], nil)
			return
		}
		answer(w, nil, missing(err, "pods", r))
	})
	return s.guarded(mux)
}

// guarded admits only the API server. Other clients may have a certificate of the same authority.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.TLS.PeerCertificates[0].Subject.CommonName
		if len(s.callers) > 0 && !slices.Contains(s.callers, name) {
			answer(w, nil, apierrors.NewForbidden(v1beta1.Resource("pods"), "", fmt.Errorf("%q may not call", name)))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func selectors(r *http.Request) metav1.ListOptions {
	q := r.URL.Query()
	return metav1.ListOptions{LabelSelector: q.Get("labelSelector"), FieldSelector: q.Get("fieldSelector")}
}

func named(r *http.Request) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "metadata.name=" + r.PathValue("name")}
}

func missing(err error, resource string, r *http.Request) error {
	if err != nil {
		return err
	}
	return apierrors.NewNotFound(v1beta1.Resource(resource), strings.TrimPrefix(r.PathValue("namespace")+"/"+r.PathValue("name"), "/"))
}

// answer writes v, or err as an API Status.
func answer(w http.ResponseWriter, v any, err error) {
	code := http.StatusOK
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			status = apierrors.NewInternalError(err)
		}
		st := status.Status()
		st.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		v, code = st, int(st.Code)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the caller may have disconnected
}

func annotate(ctx context.Context, client kubernetes.Interface, namespace, pod string, annotations map[string]string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Pods(namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}); err != nil {
		return fmt.Errorf("metricsapi: usage of pod %s/%s: %w", namespace, pod, err)
	}
	return nil
}
