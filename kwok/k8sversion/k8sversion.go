// Package k8sversion defines the supported versions of Kubernetes.
package k8sversion

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
)

// Supported versions of Kubernetes: the version of our Kubernetes modules and the next one, because a component
// may be one minor version older than the API server.
const (
	OldestMinor = 36 // 1.36
	NewestMinor = 37
)

const timeout = 30 * time.Second // time limit of the request

// ErrVersion is wrapped by the error of Check about an unsupported version.
var ErrVersion = fmt.Errorf("k8sversion: unsupported version of Kubernetes, want 1.%d to 1.%d", OldestMinor, NewestMinor)

// Check returns an error that wraps [ErrVersion] unless the API server's version v is supported.
func Check(v apiversion.Info) error {
	major, _ := strconv.Atoi(v.Major)
	minor, _ := strconv.Atoi(strings.TrimSuffix(v.Minor, "+")) // providers append a plus sign
	if major == 1 && minor >= OldestMinor && minor <= NewestMinor {
		return nil
	}
	if v.GitVersion == "" {
		return fmt.Errorf("%w: the API server reports none", ErrVersion)
	}
	return fmt.Errorf("%w: the API server has %s", ErrVersion, v.GitVersion)
}

// CheckServer asks an API server for its version and returns the result of [Check], or the error of the
// request. Much works on other versions, so callers only warn.
func CheckServer(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	text, err := client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("k8sversion: get the version: %w", err)
	}
	var v apiversion.Info
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("k8sversion: version of the API server: %w", err)
	}
	return Check(v)
}
