package kwok

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// TestCheckVersion: a component may be as old as the API server or one minor version older, which is the
// rule of Kubernetes' version skew policy for kube-scheduler; ours is built on 1.36.
func TestCheckVersion(t *testing.T) {
	for _, tc := range []struct {
		major, minor string
		ok           bool
	}{
		{"1", "35", false}, {"1", "36", true}, {"1", "36+", true}, {"1", "37", true}, {"1", "38", false}, {"2", "36", false}, {"", "", false},
	} {
		err := CheckVersion(apiversion.Info{Major: tc.major, Minor: tc.minor, GitVersion: "v" + tc.major + "." + tc.minor + ".4-of-a-provider"})
		if (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrVersion) {
			t.Errorf("CheckVersion(%s.%s) = %v, want an error: %v", tc.major, tc.minor, err, !tc.ok)
		}
		if err != nil && !strings.Contains(err.Error(), "v"+tc.major+"."+tc.minor+".4-of-a-provider") {
			t.Errorf("CheckVersion(%s.%s) = %v, which does not name the version", tc.major, tc.minor, err)
		}
	}
}

// warnings returns what is logged while do runs.
func warnings(t *testing.T, do func()) string {
	t.Helper()
	var out bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(old)
	do()
	return out.String()
}

// TestConnectChecksVersion: Connect warns of an API server whose version is not supported, and of no other.
func TestConnectChecksVersion(t *testing.T) {
	minor := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			fmt.Fprintf(w, `{"major": "1", "minor": "%d", "gitVersion": "v1.%d.2"}`, minor, minor)
			return
		}
		_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "NodeList", "items": []}`))
	}))
	defer srv.Close()
	inPod(t, srv.URL, "of-the-pod", nil)
	for _, tc := range []struct {
		minor int
		warn  bool
	}{{35, true}, {36, false}, {37, false}, {38, true}} {
		minor = tc.minor
		log := warnings(t, func() {
			if _, err := Connect(t.Context(), Options{}); err != nil {
				t.Errorf("Connect to 1.%d: %v", tc.minor, err)
			}
		})
		if warned := strings.Contains(log, fmt.Sprintf("v1.%d.2", tc.minor)) && strings.Contains(log, "want 1.36 to 1.37"); warned != tc.warn || !tc.warn && log != "" {
			t.Errorf("Connect to 1.%d logged %q, want a warning: %v", tc.minor, log, tc.warn)
		}
	}
}

// TestControlPlaneVersion: our control plane is of a supported version.
func TestControlPlaneVersion(t *testing.T) {
	p := kwoktest.Shared(t)
	if log := warnings(t, func() {
		if _, err := Connect(t.Context(), Options{Kubeconfig: p.Kubeconfig, AllowRealNodes: true}); err != nil {
			t.Error(err)
		}
	}); log != "" {
		t.Errorf("Connect logged %q", log)
	}
}
