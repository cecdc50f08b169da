package submit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubernasium/kubernasium/kwok/freeport"
)

// ErrFailed is wrapped by the error of Local.Run for a failed workload.
var ErrFailed = errors.New("submit: the workload failed")

// Local runs the manifests of a JobSet on this machine: each container is a process, the claim a folder, and
// each port one of the loopback interface. It treats the manifests as the controllers of JobSets and Jobs do:
// start order, replacement of pods, failures and success. A process that SIGTERM ends counts as evicted.
type Local struct {
	Program []string  // program of the images, such as the path of trainer
	Folder  string    // folder that stands for the volume
	Out     io.Writer // output and events of pods
}

// roleState is a running replicated Job.
type roleState struct {
	ReplicatedJob
	pods   []*localPod
	cancel context.CancelFunc // ends its pods

	isReady atomic.Bool
}

// localRun is a running workload.
type localRun struct {
	Local
	places   *strings.Replacer // this machine's counterparts of the containers' paths and host names
	token    string
	out      sync.Mutex
	wait     sync.WaitGroup
	finished chan *localPod // pods that ended for good
}

// Run runs a JobSet until it completes, fails, or ctx ends. When ctx ends, the learner has time to save a
// checkpoint.
func (l Local) Run(ctx context.Context, m *Manifests) error {
	dir, err := os.MkdirTemp("", "kubernasium-submit-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := &localRun{Local: l, token: rand.Text()}
	roles, err := r.prepare(m, dir)
	if err != nil {
		return err
	}
	pods := 0
	for _, role := range roles {
		pods += len(role.pods)
	}
	r.finished = make(chan *localPod, pods)
	defer func() { // the learner first, because it needs its servers until its end
		for _, role := range slices.Backward(roles) {
			if role.cancel != nil {
				role.cancel()
			}
			for _, p := range role.pods {
				p.awaitEnd()
			}
		}
		r.wait.Wait()
	}()
	return r.follow(ctx, m.JobSet, roles)
}

// follow starts the roles in order and waits for the end of the JobSet.
func (r *localRun) follow(ctx context.Context, set *JobSet, roles []*roleState) error {
	ready := make(chan string, len(roles)) // roles whose pods are all ready
	for {
		for _, role := range roles {
			if role.cancel == nil && dependenciesReady(role, roles) {
				r.start(role, ready)
			}
		}
		select {
		case <-ctx.Done():
			r.say("%s is interrupted: its pods end", set.Name)
			return ctx.Err()
		case <-ready:
		case p := <-r.finished:
			if p.err != nil {
				return p.err
			}
			if succeeded(set.Spec.SuccessPolicy, roles) {
				r.say("%s is complete", set.Name)
				return nil
			}
		}
	}
}

// start starts the pods of a role, and reports when all are ready.
func (r *localRun) start(role *roleState, ready chan<- string) {
	ctx, cancel := context.WithCancel(context.Background()) // Run ends roles in their order
	role.cancel = cancel
	for _, p := range role.pods {
		p.started = true
		r.wait.Go(func() { r.keep(ctx, p, &role.Template.Spec) })
	}
	r.wait.Go(func() {
		for _, p := range role.pods {
			select {
			case <-p.ready:
			case <-p.ended:
			case <-ctx.Done():
				return
			}
		}
		role.isReady.Store(true)
		ready <- role.Name
	})
}

// dependenciesReady reports whether a role may start.
func dependenciesReady(role *roleState, roles []*roleState) bool {
	for _, d := range role.DependsOn {
		i := slices.IndexFunc(roles, func(r *roleState) bool { return r.Name == d.Name })
		if i < 0 || !roles[i].isReady.Load() {
			return false
		}
	}
	return true
}

// succeeded reports whether all pods of the roles that a policy names have succeeded.
func succeeded(policy *SuccessPolicy, roles []*roleState) bool {
	for _, role := range roles {
		if len(policy.TargetReplicatedJobs) > 0 && !slices.Contains(policy.TargetReplicatedJobs, role.Name) {
			continue
		}
		for _, p := range role.pods {
			select {
			case <-p.ended:
			default:
				return false
			}
		}
	}
	return true
}

// prepare makes pods, folders and addresses.
func (r *localRun) prepare(m *Manifests, dir string) (roles []*roleState, err error) {
	set := m.JobSet
	folders := map[string]string{} // folders of volumes, by name
	if folders["logs"], err = filepath.Abs(r.Folder); err != nil {
		return nil, err
	}
	if m.Files != nil {
		folders["conf"] = filepath.Join(dir, "conf")
		err = errors.Join(err, writeFiles(folders["conf"], m.Files.BinaryData))
	}
	if m.Token != nil {
		folders[tokenKey] = filepath.Join(dir, tokenKey)
		err = errors.Join(err, writeFiles(folders[tokenKey], map[string][]byte{tokenKey: []byte(r.token)}))
	}
	if err != nil {
		return nil, err
	}
	var places []string
	for _, job := range set.Spec.ReplicatedJobs {
		role := &roleState{ReplicatedJob: job}
		for i := range *job.Template.Spec.Completions {
			p := &localPod{
				name: fmt.Sprintf("%s-%s-0-%d", set.Name, job.Name, i), spec: &job.Template.Spec.Template.Spec,
				ready: make(chan struct{}), ended: make(chan struct{}),
			}
			for _, port := range p.spec.Containers[0].Ports {
				if p.address, err = freeport.Address(); err != nil {
					return nil, err
				}
				places = append(places, fmt.Sprintf("%s.%s:%d", p.name, set.Spec.Network.Subdomain, port.ContainerPort), p.address)
			}
			role.pods = append(role.pods, p)
		}
		for _, mount := range job.Template.Spec.Template.Spec.Containers[0].VolumeMounts {
			places = append(places, "="+mount.MountPath+"/", "="+folders[mount.Name]+"/")
		}
		roles = append(roles, role)
	}
	r.places = strings.NewReplacer(places...)
	return roles, nil
}

// ignoresEvictions reports whether evicted pods of a Job do not count as failures.
func ignoresEvictions(job *batchv1.JobSpec) bool {
	return job.PodFailurePolicy != nil && slices.ContainsFunc(job.PodFailurePolicy.Rules, func(rule batchv1.PodFailurePolicyRule) bool {
		return rule.Action == batchv1.PodFailurePolicyActionIgnore && slices.ContainsFunc(rule.OnPodConditions, func(c batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
			return c.Type == corev1.DisruptionTarget
		})
	})
}

func writeFiles(folder string, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// backoff returns the delay before the next pod after the given number of failures. Job controllers wait 10 s,
// and twice as long each time.
func backoff(failures int) time.Duration {
	return min(10*time.Second, 100*time.Millisecond<<min(failures-1, 10))
}

func (r *localRun) say(format string, args ...any) {
	r.out.Lock()
	defer r.out.Unlock()
	fmt.Fprintf(r.Out, format+"\n", args...)
}
