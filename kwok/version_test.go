package kwok

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

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
