package trace_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/kwok/trace"
)

// recordOnce records what is there at present, and continues the recording in the file if there is one.
func recordOnce(t *testing.T, client kubernetes.Interface, path string, salt []byte) *clustertrace.Trace {
	t.Helper()
	w, before, err := clustertrace.Append(path)
	if err != nil {
		w, err = clustertrace.Create(path, clustertrace.Header{Start: time.Now()})
	}
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if before != nil {
		start = before.Header.Start
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := trace.Record(ctx, client, w, trace.Options{Start: start, Salt: salt, Before: before, Synced: cancel}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(time.Since(start)); err != nil {
		t.Fatal(err)
	}
	got, err := clustertrace.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestBudgetsRecorded: a budget is recorded, replaced by what it has become, and without a selector when it is gone.
func TestBudgetsRecorded(t *testing.T) {
	two, half := intstr.FromInt32(2), intstr.FromString("50%")
	budget := func(name string) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		}}
	}
	client, path := fake.NewClientset(budget("stays"), budget("goes")), filepath.Join(t.TempDir(), "cluster.jsonl")
	selector := &clustertrace.Selector{MatchLabels: map[string]string{"app": "db"}}
	want := map[string]clustertrace.Budget{
		"default/stays": {Namespace: "default", Name: "stays", MinAvailable: "2", Selector: selector},
		"default/goes":  {Namespace: "default", Name: "goes", MinAvailable: "2", Selector: selector},
	}
	if diff := cmp.Diff(want, recordOnce(t, client, path, nil).Budgets); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
	api := client.PolicyV1().PodDisruptionBudgets("default")
	other := budget("stays")
	other.Spec.MinAvailable, other.Spec.MaxUnavailable = nil, &half
	other.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"web"}}}
	if _, err := api.Update(t.Context(), other, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), "goes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want["default/stays"] = clustertrace.Budget{Namespace: "default", Name: "stays", MaxUnavailable: "50%", Selector: &clustertrace.Selector{
		MatchLabels: selector.MatchLabels, MatchExpressions: []clustertrace.Requirement{{Key: "tier", Operator: "In", Values: []string{"web"}}},
	}}
	want["default/goes"] = clustertrace.Budget{Namespace: "default", Name: "goes"}
	if diff := cmp.Diff(want, recordOnce(t, client, path, nil).Budgets); diff != "" {
		t.Errorf("budgets of the recording that is continued (-want +got):\n%s", diff)
	}
	for name, b := range recordOnce(t, client, filepath.Join(t.TempDir(), "hidden.jsonl"), []byte("salt")).Budgets {
		if text := name + b.MaxUnavailable + b.Selector.MatchLabels["app"] + b.Selector.MatchExpressions[0].Values[0]; strings.ContainsAny(name, "sy") || b.MaxUnavailable != "50%" || b.Selector.MatchLabels["app"] != "" {
			t.Errorf("anonymized: %s", text)
		}
	}
}
