package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/version"
)

const patience = time.Minute

// process is a server that runs within the test.
type process struct {
	ready ready
	stdin io.WriteCloser
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	stdin, stdinWriter := io.Pipe()
	stdoutReader, stdout := io.Pipe()
	cmd := New("server")
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(stdout)
	cmd.SetErr(io.Discard)
	p := &process{stdin: stdinWriter, stop: stop, ended: make(chan error, 1)}
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = stdout.Close() // of a pipe, which cannot fail
		p.ended <- err
	}()
	t.Cleanup(func() {
		stop()
		_ = stdinWriter.Close() // of a pipe, which cannot fail
	})
	line, err := bufio.NewReader(stdoutReader).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the server ended before it was ready: %v", <-p.ended)
	}
	if err := json.Unmarshal(line, &p.ready); err != nil {
		t.Fatalf("line %q: %v", line, err)
	}
	return p
}

func (p *process) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.ended:
		if err != nil {
			t.Errorf("the server ends with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the server does not end")
	}
}

func play(t *testing.T, url string, opts client.Options) {
	t.Helper()
	v, err := client.Dial(context.Background(), url, "classic/CartPole-v1", 2, opts)
	if err != nil {
		t.Fatalf("Dial(%s): %v", url, err)
	}
	if _, err := v.Reset(context.Background(), envs.VecResetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := v.Step(context.Background(), []float32{0, 1}); err != nil {
		t.Error(err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}

func TestServe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	p := start(t, "--listen", "127.0.0.1:0", "--unix", path)
	if p.ready.PID != os.Getpid() || p.ready.Version != version.Number || p.ready.Unix != path {
		t.Errorf("ready line %+v", p.ready)
	}
	play(t, p.ready.URL, client.Options{})
	play(t, "unix://"+path, client.Options{})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v; want mode 0600", info.Mode(), err)
	}
	if _, err := listenUnix(path); err == nil {
		t.Error("a second server on the same socket gives no error")
	}
	p.stop()
	p.wait(t)
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left behind")
	}
}

// TestModelAsOption: the server takes the files that the trainer takes, such as a trained
// sub-scheduler of Metis.
func TestModelAsOption(t *testing.T) {
	model, err := filepath.Abs(filepath.Join("..", "..", "models", "pretrained", "k8s-LRASubcluster-v0", "ppo.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "--listen", "127.0.0.1:0")
	ctx := context.Background()
	v, err := client.Dial(ctx, p.ready.URL, "k8s/LRAHierarchical-v0", 1, client.Options{Options: map[string]any{"subscheduler": model}})
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(1)
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		t.Fatal(err)
	}
	local, err := envs.Make("k8s/LRAHierarchical-v0", 1, envs.VecOptions{Options: map[string]any{"subscheduler": model}})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	want, err := local.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		t.Fatal(err)
	}
	for steps := 0; !b.Done(0); steps++ { // to the end, where the sub-scheduler fills the sub-clusters
		action := []float32{float32(steps % 3)}
		if b, err = v.Step(ctx, action); err != nil {
			t.Fatal(err)
		}
		if want, err = local.Step(ctx, action); err != nil {
			t.Fatal(err)
		}
	}
	if b.EpisodeReturn[0] != want.EpisodeReturn[0] || b.EpisodeReturn[0] == 0 {
		t.Errorf("return %v, want %v as in this process", b.EpisodeReturn[0], want.EpisodeReturn[0])
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	p.stop()
	p.wait(t)
}

func TestVersion(t *testing.T) {
	cmd := New("server")
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--version"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"server version " + version.Number + "\n", "\ncommit: ", "\ngo: " + runtime.Version()} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("server --version printed\n%s\nwithout %q", out.String(), want)
		}
	}
}

// The server ends with the process that holds its stdin.
func TestExitWithStdin(t *testing.T) {
	p := start(t, "--listen", "", "--unix", filepath.Join(t.TempDir(), "s"), "--exit-with-stdin")
	if p.ready.URL != "" {
		t.Errorf("url %q, want none", p.ready.URL)
	}
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	p.wait(t)
}

// A private folder goes with the server, so that a killed parent leaves nothing behind.
func TestRemoveFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	envstest.Write(t, filepath.Join(folder, "server.log"), "x")
	p := start(t, "--listen", "", "--unix", filepath.Join(folder, "s"), "--exit-with-stdin", "--remove-folder", folder)
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	p.wait(t)
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder after the server's end: %v, want it gone", err)
	}
}

func TestToken(t *testing.T) {
	file := envstest.TempFile(t, "token", "from-a-file\n")
	p := start(t, "--listen", "127.0.0.1:0", "--token-file", file)
	play(t, p.ready.URL, client.Options{Token: "from-a-file"})
	if _, err := client.Dial(context.Background(), p.ready.URL, "classic/CartPole-v1", 1, client.Options{}); err == nil {
		t.Error("a client without a token is let in")
	}
	t.Setenv(tokenEnv, "from the environment")
	q := start(t, "--listen", "127.0.0.1:0")
	play(t, q.ready.URL, client.Options{Token: "from the environment"})
	resp, err := http.Get(strings.Replace(strings.TrimSuffix(q.ready.URL, "/v1/ws"), "ws", "http", 1) + "/healthz")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("GET /healthz: %v, %v", resp, err)
	}
	_ = resp.Body.Close() // nothing of it is wanted
}

// TestRecordingsDenied: a server that others reach reads no recording for a client.
func TestRecordingsDenied(t *testing.T) {
	file := envstest.TempFile(t, "day.jsonl", "no recording\n")
	t.Setenv(tokenEnv, "secret")
	reached, local := start(t, "--listen", "0.0.0.0:0").ready.URL, start(t, "--listen", "127.0.0.1:0").ready.URL
	for _, id := range []string{"k8s/PodBalance-v0", "k8s/GPUPodScheduling-v0"} {
		for url, want := range map[string]string{reached: `option "trace" names a file and is not permitted`, local: "day.jsonl"} {
			_, err := client.Dial(context.Background(), url, id, 1, client.Options{Token: "secret", Options: map[string]any{"trace": file}})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s on %s: %v, want an error with %q", id, url, err, want)
			}
		}
	}
}

// TestDenyFiles: the ban of files holds beyond loopback whatever else is denied, and on loopback by its flag.
func TestDenyFiles(t *testing.T) {
	t.Setenv(tokenEnv, "secret")
	for _, tc := range []struct {
		args   []string
		denied bool
	}{
		{[]string{"--listen", "0.0.0.0:0"}, true},
		{[]string{"--listen", "0.0.0.0:0", "--deny-options", "steps"}, true},
		{[]string{"--listen", "0.0.0.0:0", "--deny-files=false"}, false},
		{[]string{"--listen", "127.0.0.1:0"}, false},
		{[]string{"--listen", "127.0.0.1:0", "--deny-files"}, true},
	} {
		_, err := client.Dial(context.Background(), start(t, tc.args...).ready.URL, "k8s/GangWindow-v0", 1, client.Options{Token: "secret", Options: map[string]any{"data": "/nowhere"}})
		if denied := strings.Contains(fmt.Sprint(err), "not permitted"); denied != tc.denied || !errors.Is(err, envs.ErrInvalidOption) {
			t.Errorf("%v: %v, want denied %v", tc.args, err, tc.denied)
		}
	}
}

// TestBadFiles: what cannot be read is INVALID_OPTION with the file and the line, at once.
func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.csv")
	envstest.Write(t, bad, "a,b\n1,2\n1\n")
	url := start(t, "--listen", "127.0.0.1:0").ready.URL
	for path, want := range map[string]string{bad: "bad.csv:", "/dev/zero": "/dev/zero", filepath.Join(dir, "none"): "no such file"} {
		for id, option := range map[string]string{"k8s/GPUPodScheduling-v0": "nodes", "k8s/PodBalance-v0": "deployments", "k8s/LRAPlacement-v0": "table", "k8s/VerticalPodAutoscaler-v0": "data"} {
			begin := time.Now()
			_, err := client.Dial(context.Background(), url, id, 1, client.Options{Options: map[string]any{option: path}})
			if !errors.Is(err, envs.ErrInvalidOption) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s of %s: %v, want an invalid option with %q", option, id, err, want)
			}
			if took := time.Since(begin); took > 20*time.Second { // /dev/zero has no end
				t.Errorf("%s of %s takes %v", path, id, took)
			}
		}
	}
}

// A socket that a killed server left behind is replaced; another file is not.
func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := listenUnix(path)
	if err != nil {
		t.Fatalf("a socket was left behind: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	envstest.Write(t, path, "")
	if _, err := listenUnix(path); err == nil {
		t.Error("a file is replaced")
	}
}

func TestRefusedFlags(t *testing.T) {
	t.Setenv(tokenEnv, "")
	empty := envstest.TempFile(t, "empty", "\n")
	for name, args := range map[string][]string{
		"beyond loopback without a token": {"--listen", "0.0.0.0:0"},
		"every address without a token":   {"--listen", ":0"},
		"a name without a token":          {"--listen", "example.com:0"},
		"nowhere":                         {"--listen", ""},
		"a key without a certificate":     {"--tls-key", "x"},
		"an empty token":                  {"--token-file", empty},
		"no token file":                   {"--token-file", empty + "x"},
		"a bad level":                     {"--log-level", "loud"},
		"no message":                      {"--max-message", "0"},
		"an argument":                     {"x"},
		"a folder of something else":      {"--listen", "", "--unix", empty + ".sock", "--remove-folder", filepath.Dir(filepath.Dir(empty))},
	} {
		cmd := New("server")
		cmd.SetArgs(args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(context.Background()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
