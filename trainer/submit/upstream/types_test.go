package upstream

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	kueue "sigs.k8s.io/kueue/pkg/controller/constants"

	"github.com/kubernasium/kubernasium/trainer/submit"
)

// everything is a file with every field.
const everything = `
name: everything
namespace: team
image: registry.example.com/trainer:1
imagePullPolicy: Always
imagePullSecrets: [{name: pull}]
queue: q
priorityClassName: low
servers: 3
learner: {resources: {requests: {cpu: "2"}}, nodeSelector: {a: b}, tolerations: [{key: t, operator: Exists}]}
server: {resources: {limits: {memory: 1Gi}}, nodeSelector: {c: d}, tolerations: [{key: u, operator: Exists}]}
volume: {size: 1Gi, storageClassName: fast}
backoffLimit: 5
terminationGracePeriodSeconds: 60
ttlSecondsAfterFinished: 3600
`

var training = submit.Training{
	Algo: "ppo", Env: "classic/CartPole-v1", Args: []string{"--env=classic/CartPole-v1", "--conf-file=/conf/mine.yml"},
	Files: map[string][]byte{"mine.yml": []byte("n_envs: 4\n")}, Version: "0",
}

// read returns the workload of a file's text.
func read(t *testing.T, text string) *submit.Workload {
	t.Helper()
	path := filepath.Join(t.TempDir(), "workload.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := submit.Read(path, training)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// documents returns the manifests of a workload, in JSON, by kind.
func documents(t *testing.T, w *submit.Workload) map[string][]byte {
	t.Helper()
	m, err := submit.Build(w, training)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := m.WriteYAML(&text); err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for in := yaml.NewYAMLOrJSONDecoder(&text, 4096); ; {
		var raw json.RawMessage
		if err := in.Decode(&raw); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		var head struct{ Kind string }
		if err := json.Unmarshal(raw, &head); err != nil {
			t.Fatal(err)
		}
		all[head.Kind] = raw
	}
}

// strict decodes all that text holds into an object of upstream's type, which must hold all of it.
func strict[T any](t *testing.T, text []byte) (object T) {
	t.Helper()
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	again, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	for text, into := range map[*[]byte]*map[string]any{&text: &want, &again: &got} {
		if err := json.Unmarshal(*text, into); err != nil {
			t.Fatal(err)
		}
	}
	delete(got, "status")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("upstream's type holds something else (-ours +theirs):\n%s", diff)
	}
	return object
}

// TestTypes: upstream's types hold all that is written, under the names that they have.
func TestTypes(t *testing.T) {
	set := strict[jobset.JobSet](t, documents(t, read(t, "kind: jobset\n"+everything))["JobSet"])
	if submit.JobSetAPI != jobset.GroupVersion.String() || submit.QueueLabel != kueue.QueueLabel || set.Labels[kueue.QueueLabel] != "q" || !*set.Spec.Suspend {
		t.Errorf("%s in queue %q by label %s, suspended %v; want %s in q by %s, suspended", submit.JobSetAPI, set.Labels[kueue.QueueLabel], submit.QueueLabel, set.Spec.Suspend, jobset.GroupVersion, kueue.QueueLabel)
	}
	first, last := set.Spec.ReplicatedJobs[0], set.Spec.ReplicatedJobs[1]
	if first.Name != "server" || *first.Template.Spec.Completions != 3 || last.DependsOn[0] != (jobset.DependsOn{Name: "server", Status: jobset.DependencyReady}) {
		t.Errorf("%s with %d pods, then %s that depends on %v; want 3 servers, then a learner that waits until they are ready", first.Name, *first.Template.Spec.Completions, last.Name, last.DependsOn)
	}
	if diff := cmp.Diff(&jobset.SuccessPolicy{Operator: jobset.OperatorAll, TargetReplicatedJobs: []string{"learner"}}, set.Spec.SuccessPolicy); diff != "" {
		t.Errorf("success policy (-want +got):\n%s", diff)
	}
	job := strict[batchv1.Job](t, documents(t, read(t, "kind: job\n"+everything))["Job"])
	if job.Labels[kueue.QueueLabel] != "q" || !*job.Spec.Suspend || len(job.Spec.Template.Spec.InitContainers) != 3 {
		t.Errorf("a Job in queue %q, suspended %v, with %d sidecars; want q, true, 3", job.Labels[kueue.QueueLabel], job.Spec.Suspend, len(job.Spec.Template.Spec.InitContainers))
	}
}
