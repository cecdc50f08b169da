package deploy

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/vpa"
)

const kubectlEnv = "KUBERNASIUM_KUBECTL" // path of kubectl

// left are the commands of the documents that the test does not run, as patterns of their lines, and why.
var left = map[string]string{
	`^make `:                      "compiles; tests run what it makes",
	`^for i in .*docker `:         "needs an engine and a registry; tools/test_compose.sh builds the images",
	`^(go run \./|bin/)trainer `:  "TestDocumentedCommands and TestKwokDocumentedCommands of package trainer run them",
	`^bin/kubernasium-scheduler `: "runs until it is stopped; TestScheduler runs it with the chart's configuration, and this test by kwok schedule",
	`^kubectl .* logs `:           "needs a kubelet; TestShadow runs the program of the job",
}

// command is how the first line of a block begins that holds commands, and no output.
var command = regexp.MustCompile(`^(make|for|go|bin/\S+|docker|export|\w+=|kubectl|helm|curl)\b`)

// blocks returns the blocks of commands of a document, each without the commands that are left out.
func blocks(t *testing.T, file string, skipped map[string]bool) (all []string) {
	t.Helper()
	text := envstest.Read(t, filepath.Join("../docs", file))
	var block []string
	skip := false // the rest of a line that was left out
	for _, line := range append(strings.Split(text, "\n"), "end") {
		code, ok := strings.CutPrefix(line, "    ")
		if !ok && strings.TrimSpace(line) != "" {
			if len(block) > 0 && command.MatchString(block[0]) {
				all = append(all, strings.Join(block, "\n"))
			}
			block = nil
			continue
		}
		was := skip
		skip = was && strings.HasPrefix(code, " ")
		for pattern := range left {
			if regexp.MustCompile(pattern).MatchString(code) {
				skip, skipped[pattern] = true, true
			}
		}
		if !skip && strings.TrimSpace(code) != "" {
			block = append(block, code)
		}
	}
	return all
}

// shell runs a script and returns what it printed.
func shell(t *testing.T, dir string, env []string, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "--norc", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = dir, env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, &out)
	}
	return out.String()
}

// TestDocumentedLines runs the lines of kubectl, helm and curl in the documents on a control plane, in their order: on
// three simulated nodes, beside the scheduler of kwok schedule.
func TestDocumentedLines(t *testing.T) {
	helmCommand(t) // skips where there is none
	kubectl, trainer := os.Getenv(kubectlEnv), filepath.Join(os.Getenv(programsEnv), "trainer")
	if kubectl == "" || trainer == "trainer" {
		t.Skipf("needs kubectl and the programs of the images: `make test-deploy` builds them and runs this; or set %s and %s", kubectlEnv, programsEnv)
	}
	plane := kwoktest.Start(t, "--authorization=rbac")
	bin, home := t.TempDir(), t.TempDir()
	for name, path := range map[string]string{"kubectl": kubectl, "helm": os.Getenv(helmEnv)} {
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home, "KUBECONFIG="+plane.Kubeconfig, "KUBERNASIUM_KUBECONFIG="+plane.Kubeconfig)
	rc, err := clientcmd.BuildConfigFromFlags("", plane.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	prepareAutoscaler(t, plane.Kubeconfig)
	address := freeAddress(t)
	scheduler := exec.CommandContext(t.Context(), trainer, "kwok", "schedule", "--policy", "Greedy", "--listen", address)
	scheduler.Env, scheduler.Dir = append(env, "KUBERNASIUM_SCHEDULER="+filepath.Join(os.Getenv(programsEnv), "kubernasium-scheduler")), root
	var log safeBuffer
	scheduler.Stdout, scheduler.Stderr = &log, &log
	scheduler.Cancel = func() error { return scheduler.Process.Signal(os.Interrupt) }
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = scheduler.Wait() // it was interrupted
		if t.Failed() {
			t.Logf("log of the scheduler:\n%s", log.String())
		}
	})
	leads := func() bool {
		l, err := client.CoordinationV1().Leases("kube-system").Get(t.Context(), "custom-scheduler", metav1.GetOptions{})
		return err == nil && l.Spec.HolderIdentity != nil
	}
	eventually(t, "the scheduler leads", leads)

	skipped, ran := map[string]bool{}, map[string]int{}
	words := strings.NewReplacer("=FILE", "="+plane.Kubeconfig, "127.0.0.1:10359", address, " NAME ", " scored ")
	var last []string // of uninstalling, after which other lines would find nothing
	for _, file := range []string{"kwok.md", "shadow.md", "scheduler.md", "deploy.md"} {
		for _, block := range blocks(t, file, skipped) {
			var now []string
			for _, line := range strings.Split(words.Replace(block), "\n") {
				if strings.HasPrefix(line, "helm uninstall ") {
					last = append(last, line)
				} else {
					now = append(now, line)
				}
				for _, program := range []string{"kubectl", "helm", "curl"} {
					ran[program] += strings.Count(line, program+" ")
				}
			}
			if strings.Contains(block, "/score") {
				waitingPod(t, client)
			}
			out := shell(t, root, env, strings.Join(now, "\n"))
			t.Logf("%s:\n%s\n%s", file, block, out)
			check(t, client, block, out)
		}
	}
	shell(t, root, env, strings.Join(last, "\n"))
	if all, err := client.AppsV1().Deployments("kubernasium").List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) > 0 {
		t.Errorf("helm uninstall leaves %v, %v", all, err)
	}
	for pattern := range left {
		if !skipped[pattern] {
			t.Errorf("%q leaves no line out: take it from the list", pattern)
		}
	}
	if ran["kubectl"] < 9 || ran["helm"] < 6 || ran["curl"] < 2 {
		t.Errorf("ran %v lines, want those of four documents", ran)
	}
}

// check looks at what a block has done.
func check(t *testing.T, client kubernetes.Interface, block, out string) {
	t.Helper()
	switch {
	case strings.Contains(block, "create deployment web"):
		eventually(t, "the policy has placed the pods of web", func() bool {
			pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
			placed := 0
			for _, p := range pods.Items {
				if p.Spec.SchedulerName == "custom-scheduler" && p.Spec.NodeName != "" {
					placed++
				}
			}
			return err == nil && placed == 6
		})
		for _, want := range []string{"node/node-3 created", "deployment.apps/web created", "deployment.apps/web patched", "custom-scheduler", "kubernasium_"} {
			if !strings.Contains(out, want) {
				t.Errorf("the block prints no %q:\n%s", want, out)
			}
		}
	case strings.Contains(block, "/score"):
		var answer struct{ Scores map[string]float64 }
		if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.Scores) != 3 || slices.Max(slices.Collect(maps.Values(answer.Scores))) != 100 {
			t.Errorf("/score answers %s, want 100 for one of three nodes", out)
		}
	case strings.Contains(block, "helm upgrade"):
		deployments, err := client.AppsV1().Deployments("kubernasium").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(deployments.Items) != 4 {
			t.Errorf("the chart has %d deployments, %v; want server, recommender, recorder and scheduler", len(deployments.Items), err)
		}
	case strings.Contains(block, "component=training"):
		if !strings.Contains(out, "kubernasium-training-") {
			t.Errorf("kubectl prints %s, want the Job of the training", out)
		}
	case strings.Contains(block, "create job"):
		if _, err := client.BatchV1().Jobs("kubernasium").Get(t.Context(), "report-now", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	case strings.Contains(block, "verticalpodautoscaler"):
		if !strings.Contains(out, "verticalpodautoscaler.autoscaling.k8s.io/web patched") {
			t.Errorf("kubectl prints %s", out)
		}
	}
}

// waitingPod creates a pod that no scheduler places.
func waitingPod(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "scored"}, Spec: corev1.PodSpec{
		SchedulerName: "nobody", Containers: []corev1.Container{{Name: "any", Image: "none"}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// prepareAutoscaler creates the autoscaler web of the documents.
func prepareAutoscaler(t *testing.T, kubeconfig string) {
	t.Helper()
	rc, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err == nil {
		err = vpa.Install(t.Context(), rc)
	}
	if err != nil {
		t.Fatal(err)
	}
	api, err := dynamic.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.Resource(vpa.GroupVersion.WithResource("verticalpodautoscalers")).Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": vpa.GroupVersion.String(), "kind": "VerticalPodAutoscaler", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"targetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
