package deploy

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

const (
	engineEnv   = "KUBERNASIUM_ENGINE"   // command of a container engine, such as docker: programs run in their images
	registryEnv = "KUBERNASIUM_REGISTRY" // of these images, as the value imageRegistry

	accountPath = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// A volume is a folder of this machine, and where the container has it.
type volume struct {
	path, dir string
	readOnly  bool
}

// inImages skips the test where programs do not run in their images.
func inImages(t *testing.T) string {
	t.Helper()
	engine := os.Getenv(engineEnv)
	if engine == "" {
		t.Skipf("needs a container engine: `make test-images` builds the images and runs this; or set %s and %s", engineEnv, registryEnv)
	}
	return engine
}

// inContainer returns the command that runs a pod's container in its image, with what the pod says of user, root file
// system, capabilities, memory and volumes. It is on the network of this machine, where the control plane listens.
// Every container carries the registry as a label, by which tools/test_images.sh removes what an ended test left.
func inContainer(t *testing.T, pod *corev1.PodSpec, volumes []volume, env, args []string) *exec.Cmd {
	t.Helper()
	main, s := pod.Containers[0], pod.SecurityContext
	run := []string{"run", "--rm", "--network=host", "--pull=never", "--label=kubernasium.test=" + os.Getenv(registryEnv)}
	if s.RunAsUser != nil {
		run = append(run, "--user="+strconv.FormatInt(*s.RunAsUser, 10)+":"+strconv.FormatInt(*s.RunAsGroup, 10))
	}
	if s := main.SecurityContext; s != nil {
		if s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem {
			run = append(run, "--read-only")
		}
		if s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation {
			run = append(run, "--security-opt=no-new-privileges")
		}
		for _, capability := range s.Capabilities.Drop {
			run = append(run, "--cap-drop="+string(capability))
		}
	}
	if limit := main.Resources.Limits.Memory(); !limit.IsZero() {
		run = append(run, "--memory="+strconv.FormatInt(limit.Value(), 10))
	}
	for _, e := range env {
		run = append(run, "--env="+e)
	}
	for _, v := range pod.Volumes {
		for _, m := range main.VolumeMounts {
			if m.Name == v.Name && v.EmptyDir != nil {
				run = append(run, "--tmpfs="+m.MountPath+":mode=1777")
			}
		}
	}
	for _, v := range volumes {
		bind := v.dir + ":" + v.path
		if v.readOnly {
			bind += ":ro"
		}
		run = append(run, "--volume="+bind)
		open(t, v.dir)
	}
	return exec.Command(inImages(t), slices.Concat(run, []string{main.Image}, args)...)
}

// open lets every user read the files of a folder and write to it, as the pod's fsGroup does for its user.
func open(t *testing.T, dir string) {
	t.Helper()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if path := filepath.Join(dir, f.Name()); f.Type().IsRegular() && filepath.Ext(path) != ".zst" { // a recording is the container's own
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// inCluster writes what a pod has of its account, as the volume that kubelet projects, and returns the variables by
// which a pod finds the API server.
func inCluster(t *testing.T, kubeconfig, namespace string) (dir string, env []string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(server.Host)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name, data := range map[string][]byte{"token": []byte(config.BearerToken), "ca.crt": config.CAData, "namespace": []byte(namespace)} {
		envstest.Write(t, filepath.Join(dir, name), string(data))
	}
	return dir, []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port}
}
