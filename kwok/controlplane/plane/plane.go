// Package plane runs a Kubernetes control plane with simulated nodes inside this process:
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK's controllers.
//
// A process runs at most one: Kubernetes' components register themselves in globals.
package plane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Names of the components.
const (
	APIServer         = "kube-apiserver"
	KWOK              = "kwok"
	Scheduler         = "kube-scheduler"
	ControllerManager = "kube-controller-manager"
)

// Components lists the components that can be disabled; etcd and kube-apiserver always run.
var Components = []string{KWOK, Scheduler, ControllerManager}

const (
	readyTimeout  = 2 * time.Minute // of the API server's start, which takes 1 to 2 s on an idle machine
	stopTimeout   = 10 * time.Second
	pollReady     = 20 * time.Millisecond
	answerTimeout = 2 * time.Second // of one readiness check
)

// Config configures a Plane.
type Config struct {
	Listener        net.Listener        // of the API server; the plane closes it
	Hosts           []string            // names and addresses that clients use besides the loopback ones; the kubeconfig has the first
	Token           string              // bearer token of all clients; empty: a random one, kept in DataDir
	DataDir         string              // folder of the kept state; empty: a temporary folder, in memory where there is /dev/shm
	Fsync           bool                // etcd waits for the disk at each write
	Kubeconfig      string              // file to write; empty: kubeconfig in the data folder
	Components      []string            // disabled components, from Components
	Controllers     []string            // of kube-controller-manager, in the notation of its flag --controllers
	SchedulerConfig string              // file with a KubeSchedulerConfiguration, or empty
	Admission       []string            // admission plugins to enable that are off for speed; the controllers that they need run, too
	RBAC            bool                // the API server authorizes by RBAC; otherwise every client may do everything
	CRDs            []string            // from CRDs: kinds of objects that configure KWOK's answers to kubectl logs, exec, attach and port-forward
	Stages          []string            // YAML files with KWOK's stages, instead of the default ones
	Stepped         bool                // KWOK's clock stands still until a client steps it; see SteppedClock
	ExtraFlags      map[string][]string // additional flags by component: kube-apiserver, kube-scheduler, kube-controller-manager
	Log             *slog.Logger
}

// A Plane is a running control plane.
type Plane struct {
	URL        string // URL of the API server
	Kubeconfig string // path of the file
	DataDir    string

	folder *folder
	client *rest.Config
	keys   *pki
	failed chan error // receives when a component ends unexpectedly
	parts  []part     // in start order
	log    *slog.Logger
}

// A part is a running component.
type part struct {
	name string
	stop func() error // returns when the component has ended
}

// Start starts a control plane and returns when it is ready. If ctx ends first, or a component fails, it stops
// what it has started. The plane itself outlives ctx; Stop stops it.
func Start(ctx context.Context, c Config) (p *Plane, err error) {
	p = &Plane{failed: make(chan error, len(Components)+1), log: c.Log}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Stop())
			p = nil
		}
	}()
	if p.folder, err = openFolder(c.DataDir); err != nil {
		return p, errors.Join(err, c.Listener.Close())
	}
	p.DataDir = p.folder.path
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	var clk clock.Clock = clock.RealClock{}
	var handler http.Handler
	if c.Stepped {
		stepped := NewSteppedClock(time.Now())
		clk, handler = stepped, stepped
	}
	stages, err := readStages(c.Stages)
	if c.Kubeconfig != "" {
		err = errors.Join(err, checkOurs(c.Kubeconfig))
	}
	if err != nil {
		return p, errors.Join(err, c.Listener.Close())
	}
	c = withServiceAccounts(c)
	if err = p.startServer(ctx, c, handler); err != nil {
		return p, err
	}
	if slices.Contains(c.Components, KWOK) {
		if err = p.startKubelet(c.CRDs); err != nil {
			return p, err
		}
	}
	for _, name := range Components { // KWOK first, because the scheduler needs its nodes
		if !slices.Contains(c.Components, name) {
			continue
		}
		err = p.run(name, func(ctx context.Context) (<-chan error, error) {
			switch name {
			case KWOK:
				return nil, startKWOK(ctx, p.client, stages, clk)
			case Scheduler:
				return runScheduler(ctx, p.DataDir, p.Kubeconfig, c.SchedulerConfig, c.ExtraFlags[name])
			default:
				return runControllerManager(ctx, p.Kubeconfig, p.keys, controllersFor(c), c.ExtraFlags[name])
			}
		})
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

// startServer starts etcd and the API server and waits until they answer.
func (p *Plane) startServer(ctx context.Context, c Config, clockHandler http.Handler) error {
	keys, err := newPKI(filepath.Join(p.DataDir, "pki"), c.Hosts, c.Token)
	if err != nil {
		return errors.Join(fmt.Errorf("keys: %w", err), c.Listener.Close())
	}
	etcdURL, store, err := startEtcd(ctx, filepath.Join(p.DataDir, "etcd"), p.folder.temp, c.Fsync)
	if err != nil {
		return errors.Join(err, c.Listener.Close())
	}
	p.parts = append(p.parts, part{"etcd", func() error { store.Close(); return nil }})

	addr := c.Listener.Addr().(*net.TCPAddr)
	p.URL = "https://" + net.JoinHostPort(localHost(addr.IP), strconv.Itoa(addr.Port))
	p.keys, p.client = keys, keys.clientConfig(p.URL)
	flags := append(apiServerFlags(keys, etcdURL, addr, c), c.ExtraFlags[APIServer]...)
	if err := p.run(APIServer, func(ctx context.Context) (<-chan error, error) {
		return runAPIServer(ctx, c.Listener, flags, clockHandler, p.kubeletSocket(c))
	}); err != nil {
		return errors.Join(err, c.Listener.Close())
	}
	if err := p.waitReady(ctx); err != nil {
		return err
	}
	if p.Kubeconfig = c.Kubeconfig; p.Kubeconfig == "" {
		p.Kubeconfig = filepath.Join(p.DataDir, "kubeconfig")
	}
	url := p.URL
	if len(c.Hosts) > 0 {
		url = "https://" + net.JoinHostPort(c.Hosts[0], strconv.Itoa(addr.Port))
	}
	return writeKubeconfig(p.Kubeconfig, url, keys)
}

// kubeletSocket returns the socket of the kubelet, or "" if KWOK does not run.
func (p *Plane) kubeletSocket(c Config) string {
	if !slices.Contains(c.Components, KWOK) {
		return ""
	}
	return filepath.Join(p.folder.temp, kubeletSocket)
}

// startKubelet starts the kubelet.
func (p *Plane) startKubelet(crds []string) error {
	return p.run("kubelet", func(ctx context.Context) (<-chan error, error) {
		k, err := newKubelet(ctx, p.client, crds)
		if err != nil {
			return nil, err
		}
		l, err := net.Listen("unix", filepath.Join(p.folder.temp, kubeletSocket))
		if err != nil {
			return nil, err
		}
		return runKubelet(ctx, l, p.keys, k, p.log), nil
	})
}

// run starts a component. If the component ends before Stop, it has failed, unless start returned no channel.
func (p *Plane) run(name string, start func(context.Context) (<-chan error, error)) error {
	ctx, cancel := context.WithCancel(context.Background())
	done, err := start(ctx)
	if err != nil {
		cancel()
		return fmt.Errorf("start %s: %w", name, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if done == nil {
			return
		}
		err := <-done
		if ctx.Err() == nil {
			p.failed <- errors.Join(fmt.Errorf("%s ended by itself", name), err)
		}
	}()
	p.parts = append(p.parts, part{name, func() error {
		cancel()
		select {
		case <-ended:
			return nil
		case <-time.After(stopTimeout):
			return fmt.Errorf("%s still runs %v after it was told to stop", name, stopTimeout)
		}
	}})
	return nil
}

// waitReady waits until the API server reports that it is ready and has its first namespace.
func (p *Plane) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("kube-apiserver not ready after %v", readyTimeout))
	defer cancel()
	hc, err := rest.HTTPClientFor(p.client)
	if err != nil {
		return err
	}
	defer hc.CloseIdleConnections()
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default"} {
		for {
			err := checkOK(ctx, hc, p.URL+path)
			if err == nil {
				break
			}
			select {
			case err := <-p.failed:
				return err
			case <-ctx.Done():
				return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), err)
			case <-time.After(pollReady):
			}
		}
	}
	return nil
}

// checkOK returns nil if url replies with status 200.
func checkOK(ctx context.Context, hc *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

// Failed receives an error when a component ends unexpectedly.
func (p *Plane) Failed() <-chan error { return p.failed }

// Stop stops the components, the last started first, and removes temporary data.
func (p *Plane) Stop() error {
	var errs []error
	for _, part := range slices.Backward(p.parts) {
		begin := time.Now()
		errs = append(errs, part.stop())
		p.log.Debug("stopped", "component", part.name, "seconds", time.Since(begin).Seconds())
	}
	p.parts = nil
	if p.folder != nil {
		errs = append(errs, p.folder.close())
		p.folder = nil
	}
	return errors.Join(errs...)
}

// localHost returns the address at which this machine reaches a listener on ip. For 0.0.0.0 Go listens on [::],
// which accepts IPv4, but a container may have no ::1.
func localHost(ip net.IP) string {
	if ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return ip.String()
}
