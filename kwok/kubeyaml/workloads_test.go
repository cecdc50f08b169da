package kubeyaml

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// objectsOf parses YAML.
func objectsOf(t *testing.T, text string) *Objects {
	t.Helper()
	o := &Objects{Ignored: map[string]int{}}
	if err := o.parse([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return o
}

const threeNodes = `
kind: List
items:
  - {kind: Node, metadata: {name: a, labels: {pool: blue}}, status: {allocatable: {cpu: 8, memory: 16Gi}}}
  - {kind: Node, metadata: {name: b}, spec: {taints: [{key: dedicated, effect: NoSchedule}]}, status: {allocatable: {cpu: 8, memory: 16Gi}}}
  - {kind: Node, metadata: {name: c, labels: {pool: blue}}, spec: {unschedulable: true}, status: {allocatable: {cpu: 8, memory: 16Gi}}}
---
`

// workload returns one of a kind whose pods request one core.
func workload(kind, name, spec string) string {
	return fmt.Sprintf(`
kind: %s
metadata: {name: %s, namespace: team}
spec: {%s template: {metadata: {labels: {app: %s}}, spec: {containers: [{name: main, resources: {requests: {cpu: 1}}}]}}}
---
`, kind, name, spec, name)
}

// podsOf lists the pods of objects as namespace/name, digits of hashes as #, their controller, and the workload that
// they name.
func podsOf(t *testing.T, o *Objects) []string {
	t.Helper()
	w, err := o.Workload()
	if err != nil {
		t.Fatal(err)
	}
	hashes := regexp.MustCompile(`-[0-9a-f]{10}\b|-[0-9a-f]{5}\b`)
	anonymous := func(s string) string {
		return hashes.ReplaceAllStringFunc(s, func(h string) string { return "-" + strings.Repeat("#", len(h)-1) })
	}
	var list []string
	for i, p := range w.Objects {
		if w.Pods[i].Name != podName(p) {
			t.Errorf("request %d is of %s, its object %s", i, w.Pods[i].Name, podName(p))
		}
		line := anonymous(podName(p))
		if ref := metav1.GetControllerOf(p); ref != nil {
			line += " of " + ref.Kind + " " + anonymous(ref.Name)
		}
		if p.Annotations[AnnotationWorkloadKind] != "" {
			line += fmt.Sprintf(" (%s %s/%s)", p.Annotations[AnnotationWorkloadKind], p.Annotations[AnnotationWorkloadNamespace], anonymous(p.Annotations[AnnotationWorkloadName]))
		}
		list = append(list, line)
	}
	return list
}

// TestWorkloads: names, controllers and order as the source's simulator has them: its pkg/utils (MakeValidPods…) names
// a Deployment's ReplicaSet by 10 digits and pods by 5 more, a StatefulSet's pods by ordinals, and takes a CronJob for
// one Job; its pkg/simulator adds DaemonSets last. Here the digits are equal in each run.
func TestWorkloads(t *testing.T) {
	text := threeNodes +
		workload("DaemonSet", "agent", "") +
		workload("CronJob", "nightly", "jobTemplate: {spec: {completions: 2, template: {spec: {containers: [{name: main}]}}}}, schedule: '@daily', #") +
		workload("Job", "import", "completions: 2,") +
		workload("Job", "later", "suspend: true,") +
		workload("StatefulSet", "db", "replicas: 2,") +
		workload("ReplicationController", "old", "") +
		workload("ReplicaSet", "set", "replicas: 0,") +
		workload("Deployment", "web", "replicas: 2,") +
		"kind: Pod\nmetadata: {name: alone}\n"
	text = strings.Replace(text, "@daily', #", "@daily'} #", 1)
	want := []string{
		"default/alone",
		"team/web-##########-##### of ReplicaSet web-########## (ReplicaSet team/web-##########)",
		"team/web-##########-##### of ReplicaSet web-########## (ReplicaSet team/web-##########)",
		"team/old-##### of ReplicationController old (ReplicationController team/old)",
		"team/db-0 of StatefulSet db (StatefulSet team/db)",
		"team/db-1 of StatefulSet db (StatefulSet team/db)",
		"team/import-##### of Job import (Job team/import)",
		"team/import-##### of Job import (Job team/import)",
		"team/nightly-##########-##### of Job nightly-########## (Job team/nightly-##########)",
		"team/nightly-##########-##### of Job nightly-########## (Job team/nightly-##########)",
		// b has a taint that agent does not tolerate; c is cordoned, which DaemonSets do not mind.
		"team/agent-##### of DaemonSet agent (DaemonSet team/agent)",
		"team/agent-##### of DaemonSet agent (DaemonSet team/agent)",
	}
	if d := cmp.Diff(want, podsOf(t, objectsOf(t, text))); d != "" {
		t.Errorf("pods (-want +got):\n%s", d)
	}
	names := map[string]bool{}
	for range 2 {
		w, err := objectsOf(t, text).Workload()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range w.Pods {
			names[p.Name] = true
		}
	}
	if len(names) != len(want) {
		t.Errorf("%d names in two readings, want the same %d, all different", len(names), len(want))
	}
}

// TestWorkloadsPlaced: pods of a workload are placed; those of a DaemonSet on their own nodes, with the labels and the
// GPUs that the workload's template or the workload itself says.
func TestWorkloadsPlaced(t *testing.T) {
	text := threeNodes + workload("Deployment", "web", "replicas: 3,") + workload("DaemonSet", "agent", "") +
		"kind: Deployment\nmetadata: {name: gpu, annotations: {alibabacloud.com/gpu-milli: '500', alibabacloud.com/gpu-count: '1'}}\nspec: {template: {spec: {containers: [{name: main}]}}}\n"
	r, err := simulate(t, text, profile(`{multiPoint: {enabled: [{name: GpuShare}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	on := map[string]int{}
	for _, p := range r.Placements {
		workload, _, _ := strings.Cut(p.Pod, "-")
		on[workload+" "+p.Node]++
	}
	if d := cmp.Diff(map[string]int{"team/web a": 3, "team/agent a": 1, "team/agent c": 1}, on); d != "" {
		t.Errorf("placed (-want +got):\n%s", d)
	}
	// No node has a GPU; of the nodes, c and b are closed for other reasons.
	if len(r.Failed) != 1 || r.Failed[0].Reasons["no GPU"] != 1 || !strings.HasPrefix(r.Failed[0].Pod, "default/gpu-") {
		t.Errorf("failed %v, want the pod of gpu for want of one", r.Failed)
	}
	o := objectsOf(t, text)
	w, err := o.Workload()
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Objects[0].Labels["app"]; got != "web" {
		t.Errorf("label app of web's pods is %q, want the template's", got)
	}
}

// TestDaemonSetOfHostNetwork: a node whose network is not ready gets the pods of DaemonSets that use the node's network, such
// as the one that readies it, and no others.
func TestDaemonSetOfHostNetwork(t *testing.T) {
	text := "kind: Node\nmetadata: {name: new}\nspec: {taints: [{key: node.kubernetes.io/network-unavailable, effect: NoSchedule}]}\nstatus: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}\n---\n"
	for name, network := range map[string]string{"cni": "true", "logs": "false"} {
		text += fmt.Sprintf("kind: DaemonSet\nmetadata: {name: %s}\nspec: {template: {spec: {hostNetwork: %s, containers: [{name: main}]}}}\n---\n", name, network)
	}
	r, err := simulate(t, text, profile("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Placements) != 1 || !strings.HasPrefix(r.Placements[0].Pod, "default/cni-") {
		t.Errorf("placed %v, failed %v, want the pod of cni alone", r.Placements, r.Failed)
	}
}

// TestOwnedWorkloads: a dump of a live cluster holds what its workloads have made already.
func TestOwnedWorkloads(t *testing.T) {
	owned := func(pod, kind, name, rest string) string {
		return fmt.Sprintf("kind: Pod\nmetadata: {name: %s, namespace: team, labels: {app: web}, ownerReferences: [{apiVersion: v1, kind: %s, name: %s, uid: u, controller: true}]}\n%s---\n", pod, kind, name, rest)
	}
	selector := "selector: {matchLabels: {app: web}},"
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"a Deployment with one of two pods", workload("Deployment", "web", selector+"replicas: 2,") + owned("web-x-1", "ReplicaSet", "web-x", ""),
			[]string{"team/web-x-1 of ReplicaSet web-x", "team/web-##########-##### of ReplicaSet web-########## (ReplicaSet team/web-##########)"}},
		{"a Deployment with its ReplicaSet", workload("Deployment", "web", selector+"replicas: 1,") +
			strings.Replace(workload("ReplicaSet", "web-x", "replicas: 1,"), "namespace: team", "namespace: team, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}]", 1) +
			owned("web-x-1", "ReplicaSet", "web-x", ""), []string{"team/web-x-1 of ReplicaSet web-x"}},
		{"a StatefulSet without its first pod", workload("StatefulSet", "db", "replicas: 2,") + owned("db-1", "StatefulSet", "db", ""),
			[]string{"team/db-1 of StatefulSet db", "team/db-0 of StatefulSet db (StatefulSet team/db)"}},
		{"a Job half done", strings.Replace(workload("Job", "import", "completions: 4,"), "---", "status: {succeeded: 2}\n---", 1) +
			owned("import-1", "Job", "import", "") + owned("import-0", "Job", "import", "status: {phase: Succeeded}\n"),
			[]string{"team/import-1 of Job import", "team/import-##### of Job import (Job team/import)"}},
		{"a DaemonSet on one of two nodes", workload("DaemonSet", "agent", "") + owned("agent-1", "DaemonSet", "agent", "spec: {nodeName: a}\n"),
			[]string{"team/agent-1 of DaemonSet agent", "team/agent-##### of DaemonSet agent (DaemonSet team/agent)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, podsOf(t, objectsOf(t, threeNodes+tc.text))); d != "" {
				t.Errorf("pods (-want +got):\n%s", d)
			}
		})
	}
}

func TestWorkloadErrors(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"negative", workload("Deployment", "web", "replicas: -1,"), "Deployment team/web wants -1 pods, want 0 to 100000"},
		{"too many", workload("StatefulSet", "web", "replicas: 100001,"), "wants 100001 pods"},
		{"typo", "kind: Deployment\nmetadata: {name: web}\nspec: {replcas: 1}\n", "replcas"},
		{"no name", "kind: Job\nspec: {}\n", "a Job has no metadata.name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := simulate(t, threeNodes+tc.text, profile(`{}`))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want an error with %q", err, tc.want)
			}
		})
	}
}
