package plane

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

const (
	etcdQuota   = 8 << 30          // maximum size of the database in bytes
	etcdTimeout = 30 * time.Second // limit of its start, which takes 0.1 to 0.5 s
)

// startEtcd runs a store with one member and returns the URL for clients.
//
// It listens on unix sockets in the folder sockets, which only its owner may enter. So no other process can
// take its port first, and no other user can reach the store, which has no authentication.
func startEtcd(ctx context.Context, dir, sockets string, fsync bool) (clientURL string, e *embed.Etcd, err error) {
	client := url.URL{Scheme: "unix", Path: filepath.Join(sockets, "client.sock")}
	// etcd reads only the host of this URL: with the name in Path, it would open an abstract socket, which
	// every local user may connect to.
	peer := url.URL{Scheme: "unix", Host: filepath.Join(sockets, "peer.sock")}

	cfg := embed.NewConfig()
	cfg.Name = "controlplane"
	cfg.Dir = dir
	cfg.ListenClientUrls, cfg.ListenPeerUrls = []url.URL{client}, []url.URL{peer}
	// Advertised addresses must have a host and a port. A single member dials neither.
	cfg.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2379"}}
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.LogLevel = "fatal" // Close reports its own closed listeners as errors
	cfg.UnsafeNoFsync = !fsync
	cfg.QuotaBackendBytes = etcdQuota
	cfg.MaxRequestBytes = 10 << 20
	cfg.MaxWalFiles, cfg.MaxSnapFiles = 2, 2 // instead of 5; each log has 64 MB and is in memory, as the data folder is
	cfg.TickMs, cfg.ElectionMs = 100, 500    // a single member must win one election before it leads

	if e, err = embed.StartEtcd(cfg); err != nil {
		return "", nil, fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return client.String(), e, nil
	case err = <-e.Err():
	case <-time.After(etcdTimeout):
		err = fmt.Errorf("not ready after %v", etcdTimeout)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	e.Close()
	return "", nil, fmt.Errorf("start etcd: %w", err)
}
