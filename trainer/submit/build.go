package submit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Paths in containers.
const (
	LogsPath  = "/logs" // mount point of the volume
	FilesPath = "/conf" // Training.Files
	tokenPath = "/var/run/kubernasium/token"
)

const (
	learner     = "learner"
	server      = "server"
	port        = 8765
	user        = 65532 // user of the images
	tokenKey    = "token"
	tokenEnv    = "KUBERNASIUM_TOKEN"
	hashKey     = "kubernasium.io/workload-sha256" // annotation with the digest of the trainer's fields
	instanceKey = "app.kubernetes.io/instance"
	roleKey     = "app.kubernetes.io/component"
)

// Manifests are the objects of a workload.
type Manifests struct {
	JobSet *JobSet                       // nil if the workload is a Job
	Job    *batchv1.Job                  // nil if the workload is a JobSet
	Claim  *corev1.PersistentVolumeClaim // nil: an existing claim
	Files  *corev1.ConfigMap             // nil: none
	Token  *corev1.Secret                // of the servers, without its value; nil: no servers
}

// main returns the JobSet or the Job.
func (m *Manifests) main() metav1.Object {
	if m.Job != nil {
		return m.Job
	}
	return m.JobSet
}

// URLs returns the servers' addresses for the learner.
func (w *Workload) URLs() (urls []string) {
	for i := range *w.Servers {
		if w.Kind == KindJob {
			urls = append(urls, fmt.Sprintf("ws://127.0.0.1:%d", port+i))
		} else {
			urls = append(urls, fmt.Sprintf("ws://%s-%s-0-%d.%s:%d", w.Name, server, i, w.Name, port))
		}
	}
	return urls
}

// Build returns the manifests of a workload whose kind is set.
func Build(w *Workload, t Training) (*Manifests, error) {
	b := builder{w, t}
	m := &Manifests{}
	if w.Volume.Claim == "" {
		m.Claim = &corev1.PersistentVolumeClaim{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: b.meta(b.claim()),
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: w.Volume.StorageClassName,
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *w.Volume.Size}},
			},
		}
	}
	if len(t.Files) > 0 {
		m.Files = &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: b.meta(b.files()), BinaryData: t.Files}
	}
	if *w.Servers > 0 {
		m.Token = &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: b.meta(b.token()), Type: corev1.SecretTypeOpaque}
	}
	if w.Kind == KindJob {
		m.Job = b.job()
	} else {
		m.JobSet = b.jobSet()
	}
	return m, m.sign()
}

type builder struct {
	*Workload
	t Training
}

func (b builder) claim() string { return cmp.Or(b.Volume.Claim, b.Name+"-logs") }
func (b builder) files() string { return b.Name + "-conf" }
func (b builder) token() string { return b.Name + "-token" }

func (b builder) labels(role string) map[string]string {
	l := map[string]string{
		"app.kubernetes.io/name": "kubernasium", instanceKey: b.Name, "app.kubernetes.io/version": b.t.Version,
		"app.kubernetes.io/managed-by": "trainer", "app.kubernetes.io/part-of": "kubernasium-training",
	}
	if role != "" {
		l[roleKey] = role
	}
	return l
}

func (b builder) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: b.Namespace, Labels: b.labels("")}
}

// queued returns the metadata of the workload, and whether to create it suspended for Kueue.
func (b builder) queued() (metav1.ObjectMeta, *bool) {
	meta := b.meta(b.Name)
	if b.Queue == "" {
		return meta, nil
	}
	meta.Labels[QueueLabel] = b.Queue
	return meta, new(true) // Kueue starts it
}

// jobSet returns a JobSet of the servers and, after them, the learner. It has no failure policy: Jobs replace
// their pods, and a failed Job ends the JobSet.
func (b builder) jobSet() *JobSet {
	meta, suspend := b.queued()
	s := &JobSet{
		TypeMeta: metav1.TypeMeta{APIVersion: JobSetAPI, Kind: "JobSet"}, ObjectMeta: meta,
		Spec: JobSetSpec{
			// A host name resolves only when its pod is ready. Until then clients retry.
			Network:       &Network{EnableDNSHostnames: new(true), Subdomain: b.Name, PublishNotReadyAddresses: new(false)},
			SuccessPolicy: &SuccessPolicy{Operator: "All", TargetReplicatedJobs: []string{learner}},
			Suspend:       suspend, TTLSecondsAfterFinished: b.TTLSecondsAfterFinished,
		},
	}
	l := ReplicatedJob{Name: learner, Replicas: 1, Template: batchv1.JobTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: b.labels(learner)}, Spec: b.jobSpec(1, *b.BackoffLimit, b.learnerPod()),
	}}
	if n := *b.Servers; n > 0 {
		// A server that ends, for any reason, is replaced; until then the learner plays on the others.
		s.Spec.ReplicatedJobs = append(s.Spec.ReplicatedJobs, ReplicatedJob{Name: server, Replicas: 1, Template: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: b.labels(server)}, Spec: b.jobSpec(n, math.MaxInt32, b.serverPod()),
		}})
		l.DependsOn = []DependsOn{{Name: server, Status: "Ready"}}
	}
	s.Spec.ReplicatedJobs = append(s.Spec.ReplicatedJobs, l)
	return s
}

// job returns a Job with the learner and, as sidecars before it, the servers.
func (b builder) job() *batchv1.Job {
	meta, suspend := b.queued()
	pod := b.learnerPod()
	if *b.Servers > 0 {
		pod.Spec.Volumes = append(pod.Spec.Volumes, b.tokenVolume())
	}
	for i := range *b.Servers {
		c := b.serverContainer(port + i)
		c.Name = fmt.Sprintf("%s-%d", server, i)
		c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		c.StartupProbe = &corev1.Probe{ProbeHandler: c.ReadinessProbe.ProbeHandler, PeriodSeconds: 1, FailureThreshold: 120}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	spec := b.jobSpec(1, *b.BackoffLimit, pod)
	spec.Suspend, spec.TTLSecondsAfterFinished = suspend, b.TTLSecondsAfterFinished
	return &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: meta, Spec: spec}
}

// jobSpec returns a Job of n indexed pods. A failed pod is replaced by one with the same index.
func (b builder) jobSpec(n, backoffLimit int32, pod corev1.PodTemplateSpec) batchv1.JobSpec {
	return batchv1.JobSpec{
		Parallelism: &n, Completions: &n, CompletionMode: new(batchv1.IndexedCompletion), BackoffLimit: &backoffLimit,
		PodReplacementPolicy: new(batchv1.Failed), // the volume has one writer
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action:          batchv1.PodFailurePolicyActionIgnore, // evictions, preemptions, drained nodes
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		}}},
		Template: pod,
	}
}

func (b builder) pod(role string, r Role, c corev1.Container, volumes ...corev1.Volume) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: b.labels(role)},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(user)), RunAsGroup: new(int64(user)), FSGroup: new(int64(user)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			ImagePullSecrets: b.ImagePullSecrets, PriorityClassName: b.PriorityClassName, NodeSelector: r.NodeSelector, Tolerations: r.Tolerations,
			Containers: []corev1.Container{c}, Volumes: volumes,
		},
	}
}

func (b builder) container(name string, r Role, args ...string) corev1.Container {
	return corev1.Container{
		Name: name, Image: b.Image, ImagePullPolicy: b.ImagePullPolicy, Resources: r.Resources, Args: args,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

func (b builder) learnerPod() corev1.PodTemplateSpec {
	args := append([]string{"train"}, b.t.Args...)
	for _, u := range b.URLs() {
		args = append(args, "--url="+u)
	}
	// Trainings that share a volume have separate folders, so that the newest checkpoint belongs to this
	// training.
	c := b.container(learner, b.Learner, append(args, "--log-folder="+LogsPath+"/"+b.Name, "--resume-newest")...)
	c.VolumeMounts = []corev1.VolumeMount{{Name: "logs", MountPath: LogsPath}}
	volumes := []corev1.Volume{{Name: "logs", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: b.claim()},
	}}}
	if len(b.t.Files) > 0 {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "conf", MountPath: FilesPath, ReadOnly: true})
		volumes = append(volumes, corev1.Volume{Name: "conf", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: b.files()}},
		}})
	}
	if *b.Servers > 0 {
		c.Env = []corev1.EnvVar{{Name: tokenEnv, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: b.token()}, Key: tokenKey,
		}}}}
	}
	pod := b.pod(learner, b.Learner, c, volumes...)
	pod.Spec.TerminationGracePeriodSeconds = b.TerminationGracePeriodSeconds
	return pod
}

func (b builder) serverPod() corev1.PodTemplateSpec {
	return b.pod(server, b.Server, b.serverContainer(port), b.tokenVolume())
}

func (b builder) tokenVolume() corev1.Volume {
	return corev1.Volume{Name: tokenKey, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: b.token(), DefaultMode: new(int32(0o440))}}}
}

func (b builder) serverContainer(port int32) corev1.Container {
	// A Job does not replace a pod that ends with status 0, as a stopped server does without --fail-on-stop.
	c := b.container(server, b.Server, "serve", fmt.Sprintf("--listen=:%d", port), "--token-file="+tokenPath+"/"+tokenKey, "--fail-on-stop")
	c.Ports = []corev1.ContainerPort{{Name: fmt.Sprintf("ws-%d", port), ContainerPort: port, Protocol: corev1.ProtocolTCP}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: tokenKey, MountPath: tokenPath, ReadOnly: true}}
	probe := func(path string, period, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port)}},
			PeriodSeconds: period, TimeoutSeconds: 5, FailureThreshold: failures,
		}
	}
	c.LivenessProbe, c.ReadinessProbe = probe("/healthz", 10, 6), probe("/readyz", 5, 3)
	return c
}

// sign annotates the workload with its digest, by which a later Apply recognizes it.
func (m *Manifests) sign() error {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(m.main()); err != nil {
		return err
	}
	if m.Files != nil {
		for _, name := range slices.Sorted(maps.Keys(m.Files.BinaryData)) {
			fmt.Fprintf(h, "%s %d %s", name, len(m.Files.BinaryData[name]), m.Files.BinaryData[name])
		}
	}
	m.main().SetAnnotations(map[string]string{hashKey: hex.EncodeToString(h.Sum(nil))})
	return nil
}
