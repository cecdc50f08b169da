package kwok

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// TestLoadServe starts the utilisation server and steps it.
func TestLoadServe(t *testing.T) {
	t.Setenv(play.TokenVariable, "")
	file := envstest.TempFile(t, "targets.json", `{"*": [{"ram": 1, "cpu": 2}, {"ram": 3, "cpu": 4}]}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	cmd := root()
	cmd.SetArgs([]string{"kwok", "load", "serve", "--targets", file})
	cmd.SetErr(in)
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.ExecuteContext(ctx)
		in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v, %v", err, <-ended)
	}
	address := strings.TrimSpace(line[strings.Index(line, "http://"):])
	for _, tc := range []struct{ method, path, want string }{
		{http.MethodGet, "/metrics/pod-0/?port=1", `{"ram":1,"cpu":2}`},
		{http.MethodPost, "/step", `{"step":1,"steps":2,"pods":{"pod-0":{"ram":3,"cpu":4,"error":`}, // nobody listens there
		{http.MethodPost, "/reset", `{"step":0,"steps":2,"pods":{"pod-0":{"ram":1,"cpu":2,"error":`},
	} {
		req, err := http.NewRequest(tc.method, address+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.HasPrefix(string(text), tc.want) {
			t.Errorf("%s %s: %s, %v; want %s", tc.method, tc.path, text, err, tc.want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("end = %v", err)
	}
}

func TestLoadArguments(t *testing.T) {
	t.Setenv(play.TokenVariable, "")
	t.Setenv(kwok.KubeconfigVariable, "")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "--listen", "0.0.0.0:0"}, "beyond loopback"},
		{[]string{"serve", "--workload", "nonesuch"}, "nonesuch"},
		{[]string{"serve", "--targets", "no such file"}, "no such file"},
		{[]string{"serve", "--data", "no such file"}, "no such file"},
		{[]string{"pods"}, "--server"},
		{[]string{"pods", "--server", "http://127.0.0.1:1"}, "trainer kwok up"},
	} {
		_, _, err := execute(t, context.Background(), append([]string{"kwok", "load"}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("kwok load %v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
}
