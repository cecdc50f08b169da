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
	etcdQuota   = 8 << 30          // bytes of the database
	etcdTimeout = 30 * time.Second // of its start; it takes 0.1 to 0.5 s
)

// startEtcd runs a store with one member and returns the URL for clients.
//
// It listens on unix sockets in sockets, a folder that only its owner may enter. So there is no
// race for a port, and no other user can reach the store, which authenticates nobody.
func startEtcd(ctx context.Context, dir, sockets string, fsync bool) (clientURL string, e *embed.Etcd, err error) {
	client := url.URL{Scheme: "unix", Path: filepath.Join(sockets, "client.sock")}
	// etcd reads only the host of this URL: with the name in Path, it would open an abstract
	// socket, which every local user may connect to.
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
	cfg.MaxWalFiles, cfg.MaxSnapFiles = 2, 2 // of 5, each log of 64 MB, which are in memory as the data folder is
	cfg.TickMs, cfg.ElectionMs = 100, 500    // a single member waits for one election before it leads

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
