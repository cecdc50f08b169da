package vpa

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/kubernasium/kubernasium/kwok/launch"
)

// UpstreamEnv names the environment variable with the path of the binary of upstream's updater and admission
// controller.
const UpstreamEnv = "KUBERNASIUM_VPA_UPSTREAM"

// ErrNoUpstream is returned by [StartUpstream] if the binary does not exist.
var ErrNoUpstream = errors.New("vpa: no updater and admission controller: run `make vpa-upstream`, or set " + UpstreamEnv + " to its binary")

// gates enables upstream's alpha features, because autoscalers may request them.
const gates = "--feature-gates=CPUStartupBoost=true,InPlace=true,PerVPAConfig=true"

// UpstreamConfig configures upstream's components that run beside a recommender.
type UpstreamConfig struct {
	Kubeconfig  string    // path of the kubeconfig; empty: the pod's service account
	Namespace   string    // of autoscalers and pods; empty is all
	Updater     bool      // resizes and evicts pods, and ends startup boosts
	Admission   bool      // gives new pods the target and their startup boost, by a webhook on loopback
	MinReplicas int       // the updater ignores controllers with fewer live pods; default for autoscalers without a value
	Log         io.Writer // of the processes; nil: discard
}

// An Upstream runs upstream's updater and admission controller (kwok/vpa/upstream) as processes, in lock-step
// with a recommender. They end with this process, however it ends.
type Upstream struct {
	admission, updater *process // nil: not run
}

// Updates counts the updater's actions in a step.
type Updates struct {
	Evicted int `json:"evicted"` // pods
	Resized int `json:"resized"` // pods, including those whose startup boost ended
}

// StartUpstream starts the processes and returns when the API server calls the webhook and the updater's caches
// are filled. Its error wraps [ErrNoUpstream] if there is no binary. If a process ends, the error has the end
// of its log.
func StartUpstream(ctx context.Context, c UpstreamConfig) (u *Upstream, err error) {
	path, err := launch.Locate(UpstreamEnv, "vpa-upstream")
	if errors.Is(err, os.ErrNotExist) && os.Getenv(UpstreamEnv) == "" {
		return nil, ErrNoUpstream
	} else if err != nil {
		return nil, err
	}
	u = &Upstream{}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.Close())
		}
	}()
	args := []string{"--lock-step", "--kubeconfig=" + c.Kubeconfig, "--vpa-object-namespace=" + c.Namespace, gates}
	if c.Admission {
		if u.admission, err = startProcess(ctx, path, c.Log, append([]string{"admission-controller"}, args...)); err != nil {
			return u, err
		}
	}
	if c.Updater {
		u.updater, err = startProcess(ctx, path, c.Log, append([]string{"updater", "--v=1", "--min-replicas=" + strconv.Itoa(c.MinReplicas),
			"--use-admission-controller-status=" + strconv.FormatBool(c.Admission)}, args...))
	}
	return u, err
}

// Step updates the admission controller's view of the cluster, and lets the updater run one loop.
func (u *Upstream) Step(ctx context.Context) (Updates, error) {
	var done Updates
	for _, p := range []*process{u.admission, u.updater} {
		if p == nil {
			continue
		}
		r, err := p.ask(ctx)
		if err != nil {
			return done, err
		}
		done.Evicted, done.Resized = done.Evicted+r.Evicted, done.Resized+r.Resized
	}
	return done, nil
}

// Close stops the processes and waits for their end. They remove the webhook's registration.
func (u *Upstream) Close() error {
	var errs []error
	for _, p := range []*process{u.updater, u.admission} {
		if p != nil {
			errs = append(errs, p.close())
		}
	}
	return errors.Join(errs...)
}

// reply is a line of a process. The first line reports that the process is ready; each further one answers a
// line of its input.
type reply struct {
	Error string `json:"error"`
	Updates
}

func (r reply) err(name string) error {
	if r.Error == "" {
		return nil
	}
	return fmt.Errorf("vpa: %s: %s", name, r.Error)
}
