package stages_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden.yaml")

var ctx = context.Background()

func TestDecode(t *testing.T) {
	files, err := stages.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s v1alpha1.Stage
		if err := yaml.UnmarshalStrict(text, &s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if s.Kind != v1alpha1.StageKind || s.APIVersion != v1alpha1.GroupVersion.String() {
			t.Errorf("%s: kind %s of %s, want %s of %s", file, s.Kind, s.APIVersion, v1alpha1.StageKind, v1alpha1.GroupVersion)
		}
		names = append(names, s.Name)
		if s.Spec.ResourceRef.Kind != "Pod" && s.Spec.ResourceRef.Kind != "Node" {
			t.Errorf("stage %s is for %s, want Pod or Node", s.Name, s.Spec.ResourceRef.Kind)
		}
		if s.Spec.Selector == nil || len(s.Spec.Selector.MatchExpressions) == 0 {
			t.Errorf("stage %s selects everything", s.Name)
		}
	}
	want := []string{"node-ready", "pod-complete-after", "pod-complete-job", "pod-deleted", "pod-resized", "pod-running"}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("stages (-want +got):\n%s", d)
	}
}

// golden is a control plane on which stages are played: testdata/STAGE.in.yaml is what is done,
// and STAGE.golden.yaml the status that the object then has.
type golden struct {
	t      *testing.T
	client kubernetes.Interface
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (g *golden) input(stage string, into any) {
	g.t.Helper()
	if err := yaml.UnmarshalStrict(read(g.t, stage+".in.yaml"), into); err != nil {
		g.t.Fatalf("%s: %v", stage, err)
	}
}

// patch changes the pod golden by the stage's input.
func (g *golden) patch(stage string, subresources ...string) {
	g.t.Helper()
	text, err := yaml.YAMLToJSON(read(g.t, stage+".in.yaml"))
	if err != nil {
		g.t.Fatal(err)
	}
	if _, err := g.client.CoreV1().Pods("default").Patch(ctx, "golden", types.StrategicMergePatchType, text, metav1.PatchOptions{}, subresources...); err != nil {
		g.t.Fatalf("%s: %v", stage, err)
	}
}

func (g *golden) create(stage string) {
	g.t.Helper()
	var pod corev1.Pod
	g.input(stage, &pod)
	if _, err := g.client.CoreV1().Pods("default").Create(ctx, &pod, metav1.CreateOptions{}); err != nil {
		g.t.Fatalf("%s: %v", stage, err)
	}
}

var (
	times     = regexp.MustCompile(`"?\d{4}-\d\d-\d\dT[0-9:.]+Z"?`)
	addresses = regexp.MustCompile(`\b10\.\d+\.\d+\.\d+\b`)
)

// want waits until the status is that of the golden file, but for times and addresses.
func (g *golden) want(stage string, status func() (any, error)) {
	g.t.Helper()
	file := filepath.Join("testdata", stage+".golden.yaml")
	last, since := "", time.Now()
	show := func() string {
		s, err := status()
		if err != nil {
			g.t.Fatalf("%s: %v", stage, err)
		}
		text, err := yaml.Marshal(s)
		if err != nil {
			g.t.Fatal(err)
		}
		return addresses.ReplaceAllString(times.ReplaceAllString(string(text), "TIME"), "ADDRESS")
	}
	if *update {
		for time.Since(since) < time.Second { // until it has stayed so
			if now := show(); now != last {
				last, since = now, time.Now()
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := os.WriteFile(file, []byte(last), 0o644); err != nil {
			g.t.Fatal(err)
		}
		return
	}
	want := string(read(g.t, stage+".golden.yaml"))
	for time.Since(since) < 30*time.Second {
		if last = show(); last == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	g.t.Errorf("%s (-want +got):\n%s", stage, cmp.Diff(strings.Split(want, "\n"), strings.Split(last, "\n")))
}

// TestGolden plays every stage on a control plane.
func TestGolden(t *testing.T) {
	rc, err := clientcmd.BuildConfigFromFlags("", kwoktest.Start(t, "--components=kwok").Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	g := &golden{t, client}
	status := func(name string) func() (any, error) {
		return func() (any, error) {
			p, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return "absent", nil
			}
			return p.Status, err
		}
	}
	var node corev1.Node
	g.input("node-ready", &node)
	if _, err := client.CoreV1().Nodes().Create(ctx, &node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	g.want("node-ready", func() (any, error) {
		n, err := client.CoreV1().Nodes().Get(ctx, "golden", metav1.GetOptions{})
		return n.Status, err
	})
	g.create("pod-running")
	g.want("pod-running", status("golden"))
	g.patch("pod-resized", "resize")
	g.want("pod-resized", status("golden"))
	g.patch("pod-complete-after")
	g.want("pod-complete-after", status("golden"))
	g.create("pod-complete-job")
	g.want("pod-complete-job", status("golden-job"))
	grace := int64(60)
	if err := client.CoreV1().Pods("default").Delete(ctx, "golden", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	g.want("pod-deleted", status("golden"))
}
