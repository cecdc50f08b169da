package kwok

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/board/boardtest"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// racked starts a control plane with six nodes of 8 CPU in three racks, of which the last is cordoned.
func racked(t *testing.T) (kubeconfig string, client kubernetes.Interface) {
	t.Helper()
	kubeconfig = kwoktest.Start(t).Kubeconfig
	t.Setenv(play.TokenVariable, "")
	client, err := kwok.Connect(t.Context(), kwok.Options{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		n := sizedNode(fmt.Sprintf("worker-%d", i), fmt.Sprintf("rack-%d", i/2))
		n.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"}
		n.Spec.Unschedulable = i == 5
		if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return kubeconfig, client
}

// createPod creates a pod for a scheduler.
func createPod(t *testing.T, client kubernetes.Interface, name, cpu, scheduler string) {
	t.Helper()
	p := podWanting(name, cpu, "")
	p.UID, p.Spec.SchedulerName, p.Spec.Containers[0].Image = "", scheduler, "kubernasium.io/simulated"
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestBrowserKwokSchedule: a model schedules 20 pods of a control plane while its page is open: they appear on their nodes
// and as decisions with the model's probability; a click on one shows the probabilities of all nodes beside the default's
// scores and why the cordoned node is masked out; a click on a node shows its pods and the one that was deleted; a pod that
// no node has room for waits with its scheduler's message.
func TestBrowserKwokSchedule(t *testing.T) {
	needScheduler(t)
	kubeconfig, client := racked(t)
	address, err := withPort("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, stop := startSchedule(t, "--model", pretrainedModel("k8s-PodBalance-v0/ppo"), "--kubeconfig", kubeconfig, "--budget", "1m", "--board", address)
	defer stop()
	b := boardtest.Open(t, "http://"+address+"/")
	b.Wait(`document.querySelector('#cluster')?.getAttribute('aria-label').startsWith('6 nodes in 3 racks')`)
	for i := range 20 {
		createPod(t, client, fmt.Sprintf("web-%d", i), []string{"500m", "1", "1500m", "2"}[i%4], "custom-scheduler")
		b.Wait(fmt.Sprintf(`document.querySelector('.placed').textContent == '%d'`, i+1))
	}
	createPod(t, client, "too-large", "9", "custom-scheduler")
	b.Wait(`/too-large.*Insufficient cpu/.test(document.querySelector('[aria-label^=Unscheduled]')?.textContent)`)
	gone, err := client.CoreV1().Pods("default").Get(t.Context(), "web-3", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "web-3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	last := decisionWithScores(t, address)
	b.Run(chromedp.Click(`//div[starts-with(@aria-label, 'Decisions')]//button[text() = '` + last.Pod + `']`))
	b.Wait(`document.querySelector('.decision h2')?.textContent.startsWith('` + last.Pod + ` on ` + last.Node + `')`)
	const nodes = `[...document.querySelectorAll('.decision table')].at(-1)`
	if got := b.Eval(nodes + `.querySelector('thead').textContent`); strings.Count(got, "KubeDefault") != 1 || !strings.HasPrefix(got, "nodewhy notk8s-PodBalance-v0/ppo") {
		t.Errorf("the columns of nodes are %q, want KubeDefault once and the model", got)
	}
	// 5 nodes have a probability, and these sum to 1.
	sum := `(p => p.length + ' ' + p.reduce((a, b) => a + b, 0).toFixed(3))([...` + nodes + `.querySelectorAll('tbody tr')].map(r => r.cells[2].textContent).filter(t => t).map(Number))`
	if got := b.Eval(sum); got != "5 1.000" {
		t.Errorf("the model's probabilities: %s, want 5 with the sum 1", got)
	}
	if got := b.Eval(`[...document.querySelectorAll('.decision tr.masked')].map(r => r.cells[0].textContent + ' ' + r.cells[1].textContent).join()`); got != "worker-5 cordoned" {
		t.Errorf("masked out: %q, want worker-5, cordoned", got)
	}
	if got := b.Eval(`[...document.querySelectorAll('[aria-label^=Decisions] tr.picked td')].map(c => c.textContent)[4]`); got == "" {
		t.Error("the decision lacks the policy's score")
	}
	b.Check("scheduler")
	b.Run(chromedp.Click(`//div[starts-with(@aria-label, 'Nodes')]//button[text() = '` + gone.Spec.NodeName + `']`))
	b.Wait(`/web-3Deleted/.test(document.querySelector('[aria-label^="Pods of"]')?.textContent)`)
	b.Check("node")
}

// decisionWithScores returns the newest decision of the page that was explained.
func decisionWithScores(t *testing.T, address string) board.Decision {
	t.Helper()
	var info board.ClusterInfo
	getter(t, "http://"+address+"/")("api/cluster", &info)
	for _, d := range info.Decisions {
		if d.PolicyScore != nil {
			return d
		}
	}
	t.Fatalf("no decision has scores: %+v", info.Decisions)
	return board.Decision{}
}

// TestBrowserKwokShadow: while a cluster is recorded, its page shows where the policies disagree with kube-scheduler, what
// either choice costs, and what would have been in the long run.
func TestBrowserKwokShadow(t *testing.T) {
	kubeconfig, client := racked(t)
	var page string
	get, interrupt := shadowPage(t, &page, "--record", filepath.Join(t.TempDir(), "cluster.jsonl"), "--policy", "First", "--policy", "Greedy", "--every", "500ms", "--block", "1s", "--kubeconfig", kubeconfig)
	b := boardtest.Open(t, page+"#shadow")
	for i := range 20 {
		createPod(t, client, fmt.Sprintf("web-%d", i), []string{"500m", "1", "1500m", "2"}[i%4], corev1.DefaultSchedulerName)
	}
	var info board.ClusterInfo
	waitFor(t, "20 pods are placed", func() bool { get("api/cluster", &info); return info.Placed == 20 })
	b.Wait(`document.querySelectorAll('[aria-label^="Where policies disagree"] tbody tr').length > 5`)
	text := b.Eval(`document.querySelector('.shadow').textContent`)
	if !strings.Contains(text, "First agrees with") || !strings.Contains(text, "Greedy agrees with") {
		t.Errorf("the page lacks a policy: %s", text)
	}
	b.Check("shadow")
	interrupt()
}
