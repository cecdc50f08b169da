package deploy

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/kwok/stages"
	"github.com/kubernasium/kubernasium/kwok/vpa"
	"github.com/kubernasium/kubernasium/server/wire"
)

// image runs an image with arguments as the chart runs its images: as user 65532, on a read-only root file system,
// without capabilities. /tmp is writable.
func image(t *testing.T, name string, volumes []volume, env []string, args ...string) *program {
	t.Helper()
	user, yes, no := int64(65532), true, false
	pod := corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{RunAsUser: &user, RunAsGroup: &user},
		Volumes:         []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Containers: []corev1.Container{{
			Image:        os.Getenv(registryEnv) + "/kubernasium/" + name + ":0.1.0",
			VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
			SecurityContext: &corev1.SecurityContext{
				ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
	p := &program{pod: &pod, ended: make(chan struct{})}
	p.cmd = inContainer(t, &pod, volumes, env, args)
	p.begin(t)
	return p
}

// TestImagesStart: each image starts its program, which prints what it is asked for.
func TestImagesStart(t *testing.T) {
	inImages(t)
	for _, tc := range []struct{ image, args, want string }{
		{"server", "--version", "version 0.1.0"},
		{"server", "--help", "-listen"},
		{"trainer", "--version", "version 0.1.0"},
		{"trainer", "eval --model=/models/pretrained/k8s-PodBalance-v0/ppo.safetensors --episodes=1", "mean return"},
		{"scheduler", "--version", "Kubernetes v1.36."}, // kube-scheduler's own flag
		{"scheduler", "--help", "--leader-elect-resource-name"},
		{"controlplane", "--version", "v1.36."},
		{"vpa-upstream", "updater --help", "--updater-interval"},
		{"vpa-upstream", "admission-controller --help", "--feature-gates"},
		{"gangworker", "--help", "stress-ng"},
	} {
		t.Run(tc.image+" "+tc.args, func(t *testing.T) {
			p := image(t, tc.image, nil, nil, strings.Fields(tc.args)...)
			<-p.ended
			if code := p.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(p.log.String(), tc.want) {
				t.Errorf("exit code %d, output\n%s\nwant %q", code, p.log.String(), tc.want)
			}
		})
	}
}

// TestImagesPlay: the server's image plays for a client with the token, and for no other.
func TestImagesPlay(t *testing.T) {
	inImages(t)
	address := freeAddress(t)
	p := image(t, "server", nil, []string{"KUBERNASIUM_TOKEN=of-the-test-which-is-long"}, "--listen="+address)
	url := "ws://" + address + wire.Path
	var v *client.VecEnv
	p.eventually(t, "a client is served", func() (served bool) {
		var err error
		v, err = client.Dial(t.Context(), url, "classic/CartPole-v1", 2, client.Options{Token: "of-the-test-which-is-long"})
		return err == nil
	})
	defer v.Close()
	seed := uint64(1)
	if _, err := v.Reset(t.Context(), envs.VecResetOptions{Seed: &seed}); err != nil {
		t.Fatal(err)
	}
	if b, err := v.Step(t.Context(), []float32{0, 1}); err != nil || b.Reward[0] != 1 { // CartPole rewards each step with 1
		t.Errorf("Step: %v, rewards %v; want 1", err, b.Reward)
	}
	if _, err := client.Dial(t.Context(), url, "classic/CartPole-v1", 1, client.Options{Token: "wrong"}); err == nil {
		t.Error("a client with a wrong token was served")
	}
}

// TestImagesOfAutoscaling: the control plane's image runs a cluster whose pods KWOK plays; upstream's updater
// and admission controller take their places in it, and the trainer's image recommends.
func TestImagesOfAutoscaling(t *testing.T) {
	inImages(t)
	state, address := t.TempDir(), freeAddress(t)
	kubeconfig := filepath.Join(state, "kubeconfig")
	plane := image(t, "controlplane", []volume{{"/state", state, false}}, []string{"KUBERNASIUM_TOKEN=of-the-test-which-is-long"},
		"--listen="+address, "--data-dir=/tmp/data", "--kubeconfig=/state/kubeconfig", "--stages=/stages", "--admission=MutatingAdmissionWebhook")
	plane.eventually(t, "a kubeconfig", func() bool { _, err := os.Stat(kubeconfig); return err == nil })
	open(t, state)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if _, port, err := net.SplitHostPort(address); err != nil || !strings.HasSuffix(config.Host, ":"+port) {
		t.Errorf("the kubeconfig names %s, want port %s, %v", config.Host, port, err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{rest: config, client: api}
	plane.eventually(t, "the API server is ready", func() bool {
		_, err := api.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
		return err == nil
	})
	c.createNode(t, "node-1")
	if _, err := api.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Annotations: map[string]string{stages.Duration: "0s"}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "one", Image: "none"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	plane.eventually(t, "the stages of the image end the pod", func() bool {
		p, err := api.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "one", metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodSucceeded
	})

	if err := vpa.Install(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	shared := []volume{{"/state", state, true}}
	updater := image(t, "vpa-upstream", shared, nil, "updater", "--kubeconfig=/state/kubeconfig", "--address=127.0.0.1:0", "--updater-interval=1s", "--v=1")
	admission := image(t, "vpa-upstream", shared, nil, "admission-controller", "--kubeconfig=/state/kubeconfig", "--listen=127.0.0.1:0")
	recommender := image(t, "trainer", shared, []string{"KUBERNASIUM_KUBECONFIG=/state/kubeconfig"},
		"kwok", "vpa", "--model=/models/pretrained/k8s-VerticalPodAutoscaler-v0/ppo.safetensors", "--interval=1s", "--metrics")
	admission.eventually(t, "the webhook is registered", func() bool {
		_, err := api.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "vpa-webhook-config", metav1.GetOptions{})
		return err == nil
	})
	recommender.eventually(t, "metrics.k8s.io is served", func() bool {
		_, err := api.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1")
		return err == nil
	})
	for _, p := range []*program{updater, admission, recommender, plane} {
		select {
		case <-p.ended:
			t.Errorf("%q ended:\n%s", p.cmd.Args, p.log.String())
		default:
		}
		p.stop()
	}
}
