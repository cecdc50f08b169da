package plane

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

const (
	proxyName    = "front-proxy-client" // of the aggregator, in its certificate
	serviceCIDR  = "10.96.0.0/16"
	podCIDR      = "10.128.0.1/9" // addresses that KWOK gives to pods
	kwokNodeIP   = "10.64.0.1"    // address that KWOK gives to nodes
	protobufType = "application/vnd.kubernetes.protobuf"
)

// disabledAdmission lists the admission plugins that are off by default: each costs time on every request, or
// needs a controller that does not run by default. Config.Admission enables them.
var disabledAdmission = []string{
	"CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "ClusterTrustBundleAttest",
	"DefaultIngressClass", "DefaultStorageClass", "DefaultTolerationSeconds", "LimitRanger",
	"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "NodeDeclaredFeatureValidator", "PersistentVolumeClaimResize",
	"PodSecurity", "ResourceQuota", "RuntimeClass",
	serviceAccount, // rejects pods until the controller has created each namespace's account
	"StorageObjectInUseProtection",
	"TaintNodesByCondition", // taints new nodes until the node-lifecycle controller checks them
	"ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
}

// apiServerFlags returns the flags that differ from kube-apiserver's defaults.
func apiServerFlags(p *pki, etcdURL string, addr *net.TCPAddr, c Config) []string {
	mode, admission := "AlwaysAllow", c.Admission
	if c.RBAC {
		mode = "RBAC"
	}
	flags := []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=" + addr.IP.String(),
		fmt.Sprintf("--secure-port=%d", addr.Port),
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", // works without a network
		"--tls-cert-file=" + p.serverCert(), "--tls-private-key-file=" + p.serverKey(),
		"--token-auth-file=" + p.tokenFile(), "--anonymous-auth=false", "--authorization-mode=" + mode,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + p.accountKey(), "--service-account-signing-key-file=" + p.accountKey(),
		"--requestheader-client-ca-file=" + p.frontCA(), "--requestheader-allowed-names=" + proxyName,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p.proxyCert(), "--proxy-client-key-file=" + p.proxyKey(),
		"--service-cluster-ip-range=" + serviceCIDR,
		"--allow-privileged=true",
		"--event-ttl=10m",
		"--enable-priority-and-fairness=false", "--max-requests-inflight=0", "--max-mutating-requests-inflight=0",
		"--delete-collection-workers=16",
		"--feature-gates=ListFromCacheSnapshot=false", // keeps a tree of keys for each stored version, for lists of the past
		"--etcd-compaction-interval=30s",              // instead of 5m, which keeps 8 MB for every 1,000 pods that come and go
	}
	off := slices.DeleteFunc(slices.Clone(disabledAdmission), func(a string) bool { return slices.Contains(admission, a) })
	if len(off) > 0 {
		flags = append(flags, "--disable-admission-plugins="+strings.Join(off, ","))
	}
	if len(admission) > 0 {
		flags = append(flags, "--enable-admission-plugins="+strings.Join(admission, ","))
	}
	return flags
}

// runAPIServer starts kube-apiserver on l. It serves clock at ClockPath unless clock is nil. Connections to
// nodes, whatever their addresses, go to the unix socket kubelet unless it is empty. The channel receives when
// the server has ended.
func runAPIServer(ctx context.Context, l net.Listener, flags []string, clock http.Handler, kubelet string) (<-chan error, error) {
	s := options.NewServerRunOptions()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, f := range s.Flags().FlagSets {
		fs.AddFlagSet(f)
	}
	if err := fs.Parse(flags); err != nil {
		return nil, err
	}
	s.SecureServing.Listener = l // already open, so that no other process can take the port in between
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	conf, err := app.NewConfig(completed)
	if err != nil {
		return nil, err
	}
	if kubelet != "" {
		conf.KubeAPIs.Extra.KubeletClientConfig.Lookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) {
			return func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", kubelet)
			}, nil
		}
	}
	if err := sharePods(conf.KubeAPIs.ControlPlane.Generic, completed.Etcd); err != nil {
		return nil, err
	}
	chain, err := conf.Complete()
	if err != nil {
		return nil, err
	}
	server, err := app.CreateServerChain(chain)
	if err != nil {
		return nil, err
	}
	if clock != nil {
		server.GenericAPIServer.Handler.NonGoRestfulMux.Handle(ClockPath, clock)
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- prepared.Run(ctx) }()
	return done, nil
}

// clientConfig is the client configuration of our own components: protobuf, and no rate limit.
func (p *pki) clientConfig(host string) *rest.Config {
	return &rest.Config{
		Host:            host,
		TLSClientConfig: rest.TLSClientConfig{CAData: p.ca},
		BearerToken:     p.token, // cheaper than a certificate, which the server verifies on every request
		ContentConfig:   rest.ContentConfig{ContentType: protobufType, AcceptContentTypes: protobufType + ",application/json"},
		QPS:             -1,
		RateLimiter:     flowcontrol.NewFakeAlwaysRateLimiter(),
		UserAgent:       "kubernasium-controlplane",
	}
}
