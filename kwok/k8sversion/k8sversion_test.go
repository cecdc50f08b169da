package k8sversion

import (
	"errors"
	"strings"
	"testing"

	apiversion "k8s.io/apimachinery/pkg/version"
)

// TestCheck: a component may be as old as the API server or one minor version older, which is the
// rule of Kubernetes' version skew policy for kube-scheduler; ours is built on 1.36.
func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		major, minor string
		ok           bool
	}{
		{"1", "35", false}, {"1", "36", true}, {"1", "36+", true}, {"1", "37", true}, {"1", "38", false}, {"2", "36", false}, {"", "", false},
	} {
		err := Check(apiversion.Info{Major: tc.major, Minor: tc.minor, GitVersion: "v" + tc.major + "." + tc.minor + ".4-of-a-provider"})
		if (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrVersion) {
			t.Errorf("Check(%s.%s) = %v, want an error: %v", tc.major, tc.minor, err, !tc.ok)
		}
		if err != nil && !strings.Contains(err.Error(), "v"+tc.major+"."+tc.minor+".4-of-a-provider") {
			t.Errorf("Check(%s.%s) = %v, which does not name the version", tc.major, tc.minor, err)
		}
	}
}
