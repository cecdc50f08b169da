package vpa

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/extension"
)

const (
	webhookName    = "pods.vpa.kubernasium.io"
	webhookTimeout = 5                // seconds that the API server waits for an answer
	webhookPatient = 20 * time.Second // until the API server calls a new webhook; it takes about a second
	probeLabel     = "kubernasium.io/vpa-probe"
	mostReview     = 4 << 20 // bytes of an admission review
)

// ErrNoWebhooks says that the API server does not call mutating webhooks.
var ErrNoWebhooks = errors.New("vpa: the API server calls no mutating webhooks: start the control plane with --admission=MutatingAdmissionWebhook")

// admission is what new pods of an autoscaler's controller get.
type admission struct {
	namespace  string
	selector   labels.Selector
	containers map[string]allotment
}

// allotment is what a container requests, and its limits; 0 is left as it is. The boost comes on top.
type allotment struct {
	requests, limits cluster.Resources
	boost            *CPUBoost // nil: none
	requestsOnly     bool      // the boost changes no limit
}

// publish says what new pods of the controller get.
func (r *Recommender) publish(a *Autoscaler, one *autoscaler, t *target) {
	next := admission{namespace: a.Namespace, selector: t.selector, containers: map[string]allotment{}}
	for name, c := range one.containers {
		give := allotment{boost: c.policy.boost, requestsOnly: c.policy.requestsOnly}
		if c.given && c.live.Admits() {
			give.requests, give.limits = c.rec.Target, c.live.Limits()
		} else if give.boost == nil {
			continue
		}
		next.containers[name] = give
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admits[string(a.UID)] = next
}

// withdraw lets new pods of an autoscaler's controller be as their template says.
func (r *Recommender) withdraw(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.admits, uid)
}

// admit returns what the containers of a new pod get; none is left as it is.
func (r *Recommender) admit(namespace string, pod *corev1.Pod) map[string]allotment {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.admits {
		if a.namespace == namespace && !a.selector.Empty() && a.selector.Matches(labels.Set(pod.Labels)) {
			return a.containers
		}
	}
	return nil
}

// An Admission gives new pods what the recommender recommends, as a mutating webhook: where the
// API server creates a pod, before any scheduler sees it.
type Admission struct {
	r       *Recommender
	serving *extension.Server
	name    string
}

// Admit serves the webhook and registers it. listen is the address, by default 127.0.0.1 and a free
// port; host is by what the API server reaches it, by default 127.0.0.1. It returns when the API
// server calls it, or an error that wraps [ErrNoWebhooks] if it does not.
func (r *Recommender) Admit(ctx context.Context, listen, host string) (*Admission, error) {
	if host == "" {
		host = "127.0.0.1"
	}
	path := "/" + rand.Text() // so that only the API server knows it
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, r.review)
	serving, err := extension.Start(extension.Config{Listen: listen, Names: []string{host}, Handler: mux})
	if err != nil {
		return nil, err
	}
	a := &Admission{r: r, serving: serving, name: "kubernasium-vpa-" + r.config.Name}
	url := "https://" + net.JoinHostPort(host, strconv.Itoa(serving.Port)) + path
	if err := a.register(ctx, url); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *Admission) register(ctx context.Context, url string) error {
	api := a.r.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	ignore, none, seconds := registrationv1.Ignore, registrationv1.SideEffectClassNone, int32(webhookTimeout)
	c := &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: a.name},
		Webhooks: []registrationv1.MutatingWebhook{{
			Name: webhookName, ClientConfig: registrationv1.WebhookClientConfig{URL: &url, CABundle: a.serving.CABundle},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create},
				Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			FailurePolicy: &ignore, SideEffects: &none, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	if ns := a.r.config.Namespace; ns != "" {
		c.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}}
	}
	_ = api.Delete(ctx, a.name, metav1.DeleteOptions{}) // of an earlier run; Create says what else is wrong
	if _, err := api.Create(ctx, c, metav1.CreateOptions{FieldManager: manager}); err != nil {
		return fmt.Errorf("vpa: register the webhook: %w", err)
	}
	return a.called(ctx)
}

// called waits until the API server calls the webhook: for a pod that it does not keep.
func (a *Admission) called(ctx context.Context) error {
	asked := ctx
	ctx, cancel := context.WithTimeout(ctx, webhookPatient)
	defer cancel()
	probe := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "vpa-probe-", Labels: map[string]string{probeLabel: ""}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "kubernasium.io/simulated"}}},
	}
	for {
		got, err := a.r.client.CoreV1().Pods(cmp.Or(a.r.config.Namespace, metav1.NamespaceDefault)).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && got.Labels[probeLabel] != "" {
			return nil
		}
		if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("vpa: try the webhook: %w", err)
		}
		select {
		case <-ctx.Done():
			return cmp.Or(asked.Err(), ErrNoWebhooks)
		case <-time.After(pollInterval):
		}
	}
}

// Close takes the registration back and stops serving.
func (a *Admission) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	err := a.r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, a.name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return errors.Join(err, a.serving.Close())
}

// review answers the API server: it permits every pod, and changes what those of an autoscaler
// request.
func (r *Recommender) review(w http.ResponseWriter, req *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, mostReview)).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "want an AdmissionReview with a request", http.StatusBadRequest)
		return
	}
	answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	var pod corev1.Pod
	if err := json.Unmarshal(review.Request.Object.Raw, &pod); err != nil {
		http.Error(w, "want a pod", http.StatusBadRequest)
		return
	}
	if ops := r.patch(review.Request.Namespace, &pod); len(ops) > 0 {
		patch, err := json.Marshal(ops)
		if err != nil {
			http.Error(w, "cannot write the patch", http.StatusInternalServerError)
			return
		}
		kind := admissionv1.PatchTypeJSONPatch
		answer.Patch, answer.PatchType = patch, &kind
	}
	review.Request, review.Response = nil, answer
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the caller may have gone
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch returns what is to change in a new pod.
func (r *Recommender) patch(namespace string, pod *corev1.Pod) []operation {
	if v, ok := pod.Labels[probeLabel]; ok && v == "" {
		return []operation{{"add", "/metadata/labels/kubernasium.io~1vpa-probe", "seen"}}
	}
	gets := r.admit(namespace, pod)
	var ops, boosts []operation
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		give, ok := gets[c.Name]
		if !ok {
			continue
		}
		next := c.Resources.DeepCopy()
		next.Requests, next.Limits = merged(next.Requests, amounts(give.requests)), merged(next.Limits, amounts(give.limits))
		if give.boost != nil {
			next.Requests, next.Limits = give.boost.raise(next, &c.Resources, give.requestsOnly)
			if len(boosts) == 0 && len(pod.Annotations) == 0 {
				boosts = append(boosts, operation{"add", "/metadata/annotations", map[string]string{}})
			}
			boosts = append(boosts, operation{"add", "/metadata/annotations/" + pointer.Replace(boostPrefix+c.Name), originals(c)})
		}
		ops = append(ops, operation{"add", "/spec/containers/" + strconv.Itoa(i) + "/resources", next})
	}
	return append(ops, boosts...)
}

// pointer escapes a part of a JSON pointer.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// merged returns l with the amounts of give in place of its own.
func merged(l, give corev1.ResourceList) corev1.ResourceList {
	if l == nil && len(give) > 0 {
		l = corev1.ResourceList{}
	}
	for name, q := range give {
		l[name] = q
	}
	return l
}
