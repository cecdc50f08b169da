package deploy

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok/freeport"
)

// A program runs as a container of the chart would: the arguments of the container, the files of its volumes,
// the token of its service account; addresses are free ports of the loopback interface. With a container engine it runs
// in its image.
type program struct {
	cmd   *exec.Cmd
	log   safeBuffer
	ended chan struct{}
	ports map[int32]string // address by the container's port
	pod   *corev1.PodSpec
}

const schedulerImage = "kubernasium/scheduler"

// binaries maps a repository of the chart's images to the program that the image starts.
var binaries = map[string]string{
	"kubernasium/server": "server", "kubernasium/trainer": "trainer", schedulerImage: "kubernasium-scheduler",
}

// run starts the container of a component's Deployment and stops it at the test's end.
func (c *cluster) run(t *testing.T, ns, component string, env ...string) *program {
	t.Helper()
	d, err := c.client.AppsV1().Deployments(ns).Get(t.Context(), "kubernasium-"+component, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c.start(t, ns, &d.Spec.Template.Spec, env...)
}

// start starts the container of a pod.
func (c *cluster) start(t *testing.T, ns string, pod *corev1.PodSpec, env ...string) *program {
	t.Helper()
	folder, engine := os.Getenv(programsEnv), os.Getenv(engineEnv)
	if folder == "" && engine == "" {
		t.Skipf("needs the programs of the images: `make test-deploy` builds them and runs this; or set %s to their folder", programsEnv)
	}
	p := &program{pod: pod, ended: make(chan struct{}), ports: map[int32]string{}}
	container := pod.Containers[0]
	repository := repositoryOf(container.Image)
	account := ""
	if slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "api-access" }) {
		account = c.account(t, ns, pod.ServiceAccountName)
	}
	volumes := c.mount(t, ns, pod, account)
	var args []string
	for _, a := range container.Args {
		for _, port := range container.Ports {
			suffix := fmt.Sprintf(":%d", port.ContainerPort)
			if flag, ok := strings.CutSuffix(a, suffix); ok {
				p.ports[port.ContainerPort] = freeAddress(t)
				a = flag + p.ports[port.ContainerPort]
			}
			if flag, ok := strings.CutSuffix(a, fmt.Sprintf("-port=%d", port.ContainerPort)); ok {
				p.ports[port.ContainerPort] = freeAddress(t)
				_, number, _ := net.SplitHostPort(p.ports[port.ContainerPort])
				a = flag + "-port=" + number
			}
		}
		args = append(args, a)
	}
	if repository == schedulerImage {
		args = append(args, "--bind-address=127.0.0.1")
	}
	if engine != "" {
		if account != "" {
			dir, found := inCluster(t, account, ns)
			volumes, env = append(volumes, volume{accountPath, dir, true}), append(env, found...)
		}
		p.cmd = inContainer(t, pod, volumes, env, args)
	} else {
		p.cmd = exec.Command(filepath.Join(folder, binaries[repository]), onHost(t, volumes, args)...)
		p.cmd.Env = append(env, "HOSTNAME=test")
		if account != "" {
			p.cmd.Env = append(p.cmd.Env, "KUBERNASIUM_KUBECONFIG="+account)
		}
		if repository == schedulerImage { // in a pod, the account is the default of these flags
			p.cmd.Args = append(p.cmd.Args, "--authentication-kubeconfig="+account, "--authorization-kubeconfig="+account)
		}
	}
	p.begin(t)
	return p
}

// begin starts the command, and stops it at the test's end.
func (p *program) begin(t *testing.T) {
	t.Helper()
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the log says what was wrong
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			log := p.log.String()
			t.Logf("log of %s:\n%s", strings.Join(p.cmd.Args, " "), log[max(0, len(log)-4000):])
		}
	})
}

// stop ends the program as a kubelet does.
func (p *program) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	<-p.ended
}

// repositoryOf returns the name of an image without registry and tag.
func repositoryOf(image string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(image, os.Getenv(registryEnv)+"/"), ":")
	return name
}

// onHost replaces the paths of a container in its arguments by those of this machine.
func onHost(t *testing.T, volumes []volume, args []string) (all []string) {
	t.Helper()
	places := []string{modelsPath, models(t)}
	for _, v := range volumes {
		places = append(places, v.path, v.dir)
	}
	files := strings.NewReplacer(places...)
	for _, a := range args {
		all = append(all, files.Replace(a))
	}
	return all
}

const modelsPath = "/models/pretrained" // of the pretrained models in images

// models returns where this repository has the pretrained models.
func models(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(".." + modelsPath)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// mount writes the volumes of a pod to folders. Outside an image, a scheduler's configuration gets the paths of this
// machine and the kubeconfig of the account, which a pod takes by default.
func (c *cluster) mount(t *testing.T, ns string, pod *corev1.PodSpec, account string) (volumes []volume) {
	t.Helper()
	outside := strings.NewReplacer()
	if os.Getenv(engineEnv) == "" {
		outside = strings.NewReplacer(modelsPath, models(t), "clientConnection: {", "clientConnection: {kubeconfig: "+account+", ")
	}
	for _, v := range pod.Volumes {
		dir := t.TempDir()
		var content map[string][]byte
		switch {
		case v.PersistentVolumeClaim != nil:
			dir = c.claim(ns, v.PersistentVolumeClaim.ClaimName)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		case v.Secret != nil:
			s, err := c.client.CoreV1().Secrets(ns).Get(t.Context(), v.Secret.SecretName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			content = s.Data
		case v.ConfigMap != nil:
			m, err := c.client.CoreV1().ConfigMaps(ns).Get(t.Context(), v.ConfigMap.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			content = map[string][]byte{}
			for name, text := range m.Data {
				content[name] = []byte(outside.Replace(text))
			}
		default:
			continue
		}
		for name, data := range content {
			envstest.Write(t, filepath.Join(dir, name), string(data))
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			if m.Name == v.Name {
				volumes = append(volumes, volume{m.MountPath, dir, m.ReadOnly})
			}
		}
	}
	return volumes
}

// claim returns the folder that stands for the volume of a claim.
func (c *cluster) claim(ns, name string) string { return filepath.Join(c.home, ns, name) }

// account returns a kubeconfig with a token of the service account.
func (c *cluster) account(t *testing.T, ns, name string) string {
	t.Helper()
	token, err := c.client.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: c.rest.Host, CertificateAuthorityData: c.rest.CAData, CertificateAuthority: c.rest.CAFile}
	config.AuthInfos["a"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "a", Namespace: ns}
	config.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// transport connects as the kubelet does.
func (p *program) transport() *http.Transport {
	return &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
}

// get requests a path of one of the container's ports as a probe does, with a token if it is not empty.
func (p *program) get(scheme string, port int32, path, token string) (int, error) {
	client := &http.Client{Transport: p.transport()}
	r, err := http.NewRequest(http.MethodGet, strings.ToLower(scheme)+"://"+p.ports[port]+path, nil)
	if err != nil {
		return 0, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// wantProbes waits until the program answers liveness and readiness probe of its container.
func (p *program) wantProbes(t *testing.T) {
	t.Helper()
	container := p.pod.Containers[0]
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
		port := slices.IndexFunc(container.Ports, func(c corev1.ContainerPort) bool { return c.Name == probe.HTTPGet.Port.StrVal })
		if port < 0 {
			t.Fatalf("the probe's port %s is none of %v", probe.HTTPGet.Port.StrVal, container.Ports)
		}
		p.eventually(t, "probe "+probe.HTTPGet.Path, func() bool {
			status, err := p.get(string(probe.HTTPGet.Scheme), container.Ports[port].ContainerPort, probe.HTTPGet.Path, "")
			return err == nil && status == http.StatusOK
		})
	}
}

// eventually waits until done reports true, and fails if the program ends before.
func (p *program) eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	eventually(t, what, func() bool {
		select {
		case <-p.ended:
			if !done() {
				t.Fatalf("%s: the program ended\n%s", what, p.log.String())
			}
		default:
		}
		return done()
	})
}

// safeBuffer is a log that may be read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
