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

// ErrNoUpstream says that there is no such binary. [StartUpstream] returns it.
var ErrNoUpstream = errors.New("vpa: no updater and admission controller: run `make vpa-upstream`, or set " + UpstreamEnv + " to its binary")

// gates turns on what upstream guards as alpha, as the autoscalers' fields ask for it.
const gates = "--feature-gates=CPUStartupBoost=true,InPlace=true,PerVPAConfig=true"

// UpstreamConfig configures upstream's components that run beside a recommender.
type UpstreamConfig struct {
	Kubeconfig  string    // file that says how to reach the API server; empty: that of the pod
	Namespace   string    // of autoscalers and pods; empty is all
	Updater     bool      // resizes and evicts pods, and takes startup boosts back
	Admission   bool      // gives new pods the target and their startup boost, by a webhook on loopback
	MinReplicas int       // the updater ignores controllers with fewer live pods; default of autoscalers without a value
	Log         io.Writer // of the processes; nil: none
}

// An Upstream is upstream's updater and admission controller (kwok/vpa/upstream), as processes that work in
// step with a recommender. They end with this one, however that ends.
type Upstream struct {
	admission, updater *process // nil: not run
}

// Updates counts the updater's actions in a step.
type Updates struct {
	Evicted int `json:"evicted"` // pods
	Resized int `json:"resized"` // pods, those whose startup boost was taken back included
}

// StartUpstream starts the processes and returns when the API server calls the webhook and the updater's caches
// are filled. It returns an error that wraps [ErrNoUpstream] if there is no binary, and one with the process's last
// words if it ends.
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

// Step lets the admission controller see the cluster as it is now, and the updater run one loop on it.
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

// Close ends the processes and returns when they have ended; the webhook's registration is gone then.
func (u *Upstream) Close() error {
	var errs []error
	for _, p := range []*process{u.updater, u.admission} {
		if p != nil {
			errs = append(errs, p.close())
		}
	}
	return errors.Join(errs...)
}

// reply is a line of a process: the first says that it is ready, each further one answers a line of ours.
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
