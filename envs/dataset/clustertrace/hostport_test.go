package clustertrace

import "testing"

// TestHostPort: texts are read as written; the expected conflicts are those of kube-scheduler's HostPortInfo.
func TestHostPort(t *testing.T) {
	for text, want := range map[string]HostPort{
		"TCP/:80": {"TCP", "", 80}, "UDP/::1:53": {"UDP", "::1", 53}, "SCTP/10.0.0.1:65535": {"SCTP", "10.0.0.1", 65535},
	} {
		if got, err := ParseHostPort(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s is %+v, %v, written as %s, want %+v", text, got, err, got, want)
		}
	}
	for _, text := range []string{"", "TCP", "TCP/", "TCP/:", "TCP/:x", "TCP/:65536", "TCP/:-1"} {
		if got, err := ParseHostPort(text); err == nil {
			t.Errorf("%q is %+v, want an error", text, got)
		}
	}
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"TCP/:80", "TCP/:80", true}, {"TCP/:80", "UDP/:80", false}, {"TCP/:80", "TCP/:81", false},
		{"TCP/:80", "TCP/10.0.0.1:80", true}, {"TCP/0.0.0.0:80", "TCP/10.0.0.1:80", true},
		{"TCP/10.0.0.1:80", "TCP/10.0.0.2:80", false}, {"TCP/10.0.0.1:80", "TCP/10.0.0.1:80", true},
	} {
		a, _ := ParseHostPort(tc.a)
		b, _ := ParseHostPort(tc.b)
		if a.Conflicts(b) != tc.want || b.Conflicts(a) != tc.want {
			t.Errorf("%s conflicts with %s: %v and %v, want %v", a, b, a.Conflicts(b), b.Conflicts(a), tc.want)
		}
	}
}
