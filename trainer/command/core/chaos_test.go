package core

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/kwok/freeport"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/server/faults"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/wire"
)

// chaosEnv makes the test binary a server; its value is the address.
const chaosEnv = "KUBERNASIUM_CHAOS_SERVER"

func init() {
	address := os.Getenv(chaosEnv)
	if address == "" {
		return
	}
	l, err := net.Listen("tcp", address)
	if err == nil {
		s := host.New(host.Config{Limits: wire.DefaultLimits(), Version: "test", Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		err = s.Serve(l)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// victim is a server in a process of its own, which is killed and started again.
type victim struct {
	t       *testing.T
	address string
	cmd     *exec.Cmd
	log     strings.Builder
	crashes int
}

func startVictim(t *testing.T) *victim {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{t: t, address: address}
	v.start()
	return v
}

func (v *victim) start() {
	v.cmd = exec.Command(os.Args[0])
	v.cmd.Env = append(os.Environ(), chaosEnv+"="+v.address)
	v.cmd.Stderr = &v.log
	if err := v.cmd.Start(); err != nil {
		v.t.Error(err)
		return
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", v.address); err == nil {
			_ = conn.Close() // it has served its end
			return
		}
	}
	v.t.Errorf("the server does not start: %s", v.log.String())
}

// kill ends the server by SIGKILL, as kill -9 does. A server that has ended before has crashed.
func (v *victim) kill() {
	if err := v.cmd.Process.Kill(); err != nil {
		v.crashes++
	}
	if err := v.cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		v.crashes++
	}
}

// metric returns a line of the server's /metrics.
func (v *victim) metric(name string) string {
	resp, err := http.Get("http://" + v.address + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body) // what came is searched
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			return value
		}
	}
	return ""
}

// TestChaos: a training through a wire that is cut, at a server that is killed, ends with the bytes of an undisturbed
// one. Were a step lost or taken twice, they would differ.
func TestChaos(t *testing.T) {
	cuts, kills, steps, most := int64(1000), int64(20), "16384", int64(12_000)
	if testing.Short() {
		cuts, kills, steps, most = 30, 2, "2048", 7000
	}
	want := parameters(t, steps)
	v := startVictim(t)
	killed := int64(0)
	p := &faults.Proxy{To: v.address, MostCuts: cuts, Bytes: [2]int64{most / 2, most}, OnCut: func(n int64) {
		if killed < kills && n >= (killed+1)*cuts/(kills+1) {
			killed++
			v.kill()
			v.start()
		}
	}}
	address, err := p.Start(1)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	got := parameters(t, steps, "--url", "ws://"+address)
	took := time.Since(begin)
	sessions := ""
	for end := time.Now().Add(time.Minute); sessions != "0" && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		sessions = v.metric("kubernasium_sessions")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	v.kill()
	if p.Cuts() < cuts || killed < kills {
		t.Errorf("%d cuts and %d kills, want %d and %d: train longer", p.Cuts(), killed, cuts, kills)
	}
	t.Logf("%s steps through %d cuts and %d kills in %v", steps, p.Cuts(), killed, took.Round(time.Millisecond))
	switch {
	case got != want:
		t.Error("steps were lost or doubled: the training ends in other parameters than an undisturbed one")
	case sessions != "0":
		t.Errorf("%s sessions leaked", sessions)
	case v.crashes > 0 || strings.Contains(v.log.String(), "panic"):
		t.Errorf("%d crashes: %s", v.crashes, v.log.String())
	default:
		t.Log("0 steps lost, 0 doubled, 0 sessions leaked, 0 crashes")
	}
}

// parameters trains and returns the parameters.
func parameters(t *testing.T, steps string, more ...string) string {
	t.Helper()
	return parametersIn(t, t.TempDir(), steps, more...)
}

// parametersIn is parameters with a folder for the training.
func parametersIn(t *testing.T, folder, steps string, more ...string) string {
	t.Helper()
	mustExecute(t, small(folder, append(more, "-n", steps, "--json")...)...)
	f, err := models.ReadFile(filepath.Join(folder, "ppo", "k8s-GangWindow-v0_1", "k8s-GangWindow-v0.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, tensor := range f.Tensors {
		if !strings.HasPrefix(tensor.Name, models.StatePrefix) {
			data, err := json.Marshal(tensor)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(data)
		}
	}
	return text.String()
}
