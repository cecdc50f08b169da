package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok/k8sversion"
)

// everything switches on what the chart has, but for what only some clusters serve.
var (
	everything = []string{"recommender.enabled=true", "recommender.storage=checkpoint", "shadow.enabled=true", "scheduler.enabled=true", "training.enabled=true",
		"dashboards.enabled=true", "server.headless=true", "server.autoscaling.enabled=true", "server.tls.secret=tls", "server.token.value=t"}
	supported = fmt.Sprintf("1.%d.0", k8sversion.OldestMinor)
)

// render returns the chart's Deployments for a supported cluster.
func render(t *testing.T, set ...string) []appsv1.Deployment {
	t.Helper()
	text := helm(t, append([]string{"template", "kubernasium", chart, "--kube-version", supported}, sets(set)...)...)
	var all []appsv1.Deployment
	for _, document := range strings.Split(text, "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		if kind.Kind != "Deployment" {
			continue
		}
		var d appsv1.Deployment
		if err := yaml.UnmarshalStrict([]byte(document), &d); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		all = append(all, d)
	}
	return all
}

// TestLint: Helm finds no defect, whatever is switched on.
func TestLint(t *testing.T) {
	for _, set := range [][]string{nil, everything} {
		helm(t, append([]string{"lint", "--strict", "--quiet", chart, "--kube-version", supported}, sets(set)...)...)
	}
}

// TestRefusedValues: values of a wrong type or name are refused, with their path.
func TestRefusedValues(t *testing.T) {
	for set, want := range map[string]string{
		"server.replicas=many":                                    "/server/replicas",
		"server.replica=2":                                        "'replica' not allowed",
		"scheduler2.enabled=true":                                 "'scheduler2' not allowed",
		"imagePullPolicy=Sometimes":                               "/imagePullPolicy",
		"recommender.name=Not_A_Name":                             "/recommender/name",
		"scheduler.schedulerName=default-scheduler":               "/scheduler/schedulerName",
		"scheduler.order=random":                                  "/scheduler/order",
		"shadow.enabled=true,shadow.models=null":                  "at least one",
		"recommender.storage=disk":                                "/recommender/storage",
		"recommender.enabled=true,recommender.storage=prometheus": "prometheusAddress",
		"recommender.interval=soon":                               "/recommender/interval",
		"server.image.digest=latest":                              "/server/image/digest",
		"server.networkPolicy.from=null":                          "/server/networkPolicy",
		"server.serviceMonitor.enabled=true":                      "--api-versions monitoring.coreos.com/v1",
		"server.podDisruptionBudget.enabled=yes":                  "/server/podDisruptionBudget/enabled",
		"server.autoscaling.sessions=0":                           "/server/autoscaling/sessions",
		"training.args={--log-folder=/tmp}":                       "/training/args/0",
		"training.persistence.size=":                              "/training/persistence/size",
		"dashboards.labels.a=1":                                   "/dashboards/labels/a",
	} {
		_, err := tryHelm(t, "template", "kubernasium", chart, "--kube-version", supported, "--set", set)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want an error with %s", set, err, want)
		}
	}
}

// TestKubeVersion: the chart takes the versions of Kubernetes that the programs take.
func TestKubeVersion(t *testing.T) {
	for minor := k8sversion.OldestMinor - 2; minor <= k8sversion.NewestMinor+2; minor++ {
		v := fmt.Sprintf("1.%d.3", minor)
		want := k8sversion.Check(apiversion.Info{Major: "1", Minor: fmt.Sprint(minor), GitVersion: "v" + v}) == nil
		for _, suffix := range []string{"", "-gke.1200"} { // as providers name them
			_, err := tryHelm(t, "template", "kubernasium", chart, "--kube-version", v+suffix)
			if got := err == nil; got != want || err != nil && !strings.Contains(err.Error(), "kubeVersion") {
				t.Errorf("Helm takes %s%s: %v (%v), Check: %v", v, suffix, got, err, want)
			}
		}
	}
}

// TestRestricted: what the restricted profile of Pod Security does not ask for holds too, in each component; the
// profile itself is enforced where tests install the chart.
func TestRestricted(t *testing.T) {
	for _, d := range render(t, everything...) {
		pod := d.Spec.Template.Spec
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Errorf("%s: the token of the account is mounted unasked", d.Name)
		}
		for _, c := range pod.Containers {
			if s := c.SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
				t.Errorf("%s: the root file system is writable", d.Name)
			}
			if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s: resources %v, want requests of CPU and memory and a limit of memory", d.Name, c.Resources)
			}
			if probed := c.LivenessProbe != nil && c.ReadinessProbe != nil; probed == (c.Name == "recorder") {
				t.Errorf("%s: probes: %v; want them in all but the recorder, which has no endpoint", d.Name, probed)
			}
		}
	}
	c := openCluster(t)
	_, err := c.client.CoreV1().Pods(c.namespace(t)).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "any"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "any", Image: "none"}}},
	}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "restricted") {
		t.Errorf("a pod without a security context: %v, want forbidden by the restricted profile", err)
	}
}

// TestImages: each component runs an image that this repository builds, as the user of that image, with a model
// that the image has.
func TestImages(t *testing.T) {
	folders := map[string]string{"kubernasium/server": "../server", "kubernasium/trainer": "../trainer", schedulerImage: "../kwok/scheduler"}
	model := regexp.MustCompile(`/models/pretrained/[\w./-]+`)
	for _, d := range render(t, everything...) {
		repository, tag, _ := strings.Cut(d.Spec.Template.Spec.Containers[0].Image, ":")
		text, err := os.ReadFile(filepath.Join(folders[repository], "Dockerfile"))
		if err != nil || tag == "" {
			t.Errorf("%s: image %s:%s: %v", d.Name, repository, tag, err)
			continue
		}
		user := fmt.Sprintf("USER %d:%d\n", *d.Spec.Template.Spec.SecurityContext.RunAsUser, *d.Spec.Template.Spec.SecurityContext.RunAsGroup)
		if !strings.Contains(string(text), user) {
			t.Errorf("%s: the Dockerfile lacks %q", d.Name, user)
		}
		if !strings.Contains(string(text), `ENTRYPOINT ["/`+binaries[repository]+`"]`) {
			t.Errorf("%s: %s starts something else than %s", d.Name, repository, binaries[repository])
		}
		for _, file := range model.FindAllString(strings.Join(d.Spec.Template.Spec.Containers[0].Args, " "), -1) {
			if _, err := os.Stat(".." + file); err != nil || !strings.Contains(string(text), "COPY pretrained /models/pretrained\n") {
				t.Errorf("%s: %s is not in the image: %v", d.Name, file, err)
			}
		}
	}
}

// TestDocumentedImages: docs/deploy.md builds and pushes the images that its `helm install` runs, under the names that
// the chart gives them.
func TestDocumentedImages(t *testing.T) {
	text := envstest.Read(t, "../docs/deploy.md")
	line := regexp.MustCompile(`for i in ([a-z ]+); do docker build -t (\S+)/\$i:(\S+) \.cache/images/\$i; docker push (\S+); done`).FindStringSubmatch(text)
	registry := regexp.MustCompile(`helm install .* --set imageRegistry=(\S+)`).FindStringSubmatch(text)
	if line == nil || registry == nil {
		t.Fatalf("docs/deploy.md has no such lines: %q, %q", line, registry)
	}
	var built, want []string
	for _, name := range strings.Fields(line[1]) {
		built = append(built, line[2]+"/"+name+":"+line[3])
	}
	for _, d := range render(t, append(everything, "imageRegistry="+registry[1])...) {
		want = append(want, d.Spec.Template.Spec.Containers[0].Image)
	}
	slices.Sort(built)
	slices.Sort(want)
	if want = slices.Compact(want); !slices.Equal(built, want) {
		t.Errorf("built are %q, the chart runs %q", built, want)
	}
	if pushed := line[2] + "/$i:" + line[3]; line[4] != pushed {
		t.Errorf("pushed is %s, built %s", line[4], pushed)
	}
}

// TestDocumentedHelmCommands runs Helm's commands of docs/deploy.md on a control plane, in their order.
func TestDocumentedHelmCommands(t *testing.T) {
	c := openCluster(t)
	text := envstest.Read(t, "../docs/deploy.md")
	var commands []string
	for _, line := range strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		if line, _, _ = strings.Cut(line, " #"); strings.HasPrefix(line, "    helm ") {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	if len(commands) < 4 {
		t.Fatalf("docs/deploy.md has the commands %q", commands)
	}
	for _, command := range commands {
		words := strings.Fields(command)[1:]
		if i := slices.Index(words, "deploy/helm/kubernasium"); i >= 0 {
			words[i] = chart
		}
		out := helm(t, append(words, "--kubeconfig", c.Kubeconfig)...)
		if words[0] == "install" && !strings.Contains(out, "STATUS: deployed") {
			t.Errorf("%s printed\n%s", command, out)
		}
	}
	left, err := c.client.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=kubernasium"})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d Deployments are left after the last command, %v", len(left.Items), err)
	}
}
