package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// cartPole is a training of a second, with 12 checkpoints.
var cartPole = []string{"train", "--env", "classic/CartPole-v1", "--seed", "1", "-n", "12288", "--eval-freq", "4096", "--eval-episodes", "2", "--save-freq", "1024"}

// workloadFile writes the file of a workload.
func workloadFile(t *testing.T, text string) string {
	t.Helper()
	return envstest.TempFile(t, "workload.yaml", text)
}

// submitted is a workload of kind local that runs as a process of its own.
type submitted struct {
	cmd   *exec.Cmd
	mu    sync.Mutex
	lines []string
	read  chan struct{} // closed when there are no more lines
}

func startSubmitted(t *testing.T, args ...string) *submitted {
	t.Helper()
	s := &submitted{cmd: exec.Command(os.Args[0], args...), read: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), clitest.ChildVariable+"=1")
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.read)
		for in := bufio.NewScanner(out); in.Scan(); {
			s.mu.Lock()
			s.lines = append(s.lines, in.Text())
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it may have ended
		if t.Failed() {
			t.Log(strings.Join(s.all(), "\n"))
		}
	})
	return s
}

func (s *submitted) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

// at returns the indices of the lines that match a pattern.
func (s *submitted) at(pattern string) (found []int) {
	for i, line := range s.all() {
		if regexp.MustCompile(pattern).MatchString(line) {
			found = append(found, i)
		}
	}
	return found
}

// process returns the number of the process of a pod's last start.
func (s *submitted) process(t *testing.T, pod string) int {
	t.Helper()
	all := s.at("^pod " + pod + " started, process ")
	if len(all) == 0 {
		t.Fatalf("no start of pod %s in\n%s", pod, strings.Join(s.all(), "\n"))
	}
	words := strings.Fields(s.all()[all[len(all)-1]])
	pid, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func (s *submitted) waitFor(t *testing.T, what string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(clitest.Patience); !met(); time.Sleep(2 * time.Millisecond) {
		select {
		case <-s.read:
			t.Fatalf("the workload ended before %s", what)
		default:
			if time.Now().After(end) {
				t.Fatalf("%s: not after %v", what, clitest.Patience)
			}
		}
	}
}

// end returns how the process ends.
func (s *submitted) end() error {
	<-s.read
	return s.cmd.Wait()
}

func checkpoints(t *testing.T, folder string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "rl_model_*_steps.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// tensors returns the parameters, optimizer, statistics and generators of a model. Those of environments are with the
// servers, if there are any.
func tensors(t *testing.T, path string) []safetensors.Tensor {
	t.Helper()
	f, err := models.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(f.Tensors, func(t safetensors.Tensor) bool { return t.Name == "state.envs" || t.Name == "state.server_envs" })
}

// TestSubmitLocal: the learner of a workload starts when its servers are ready. Evictions are no failures, other pods take
// the places, and the end of the training ends all. The model is that of an undisturbed training.
func TestSubmitLocal(t *testing.T) {
	const model = "classic-CartPole-v1.safetensors"
	whole := t.TempDir()
	mustExecute(t, append(slices.Clone(cartPole), "-f", whole)...)
	want := tensors(t, filepath.Join(whole, "ppo", "classic-CartPole-v1_1", model))
	for _, tc := range []struct {
		name    string
		servers int
		evicted []string
	}{
		{"server", 2, []string{"cart-server-0-1"}},
		{"learner", 0, []string{"cart-learner-0-0"}},
		{"both", 2, []string{"cart-learner-0-0", "cart-server-0-0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if testing.Short() && tc.name != "both" {
				t.Skip("trains twice more: run it without -short")
			}
			dir := t.TempDir()
			file := workloadFile(t, fmt.Sprintf("kind: local\nname: cart\nservers: %d\nbackoffLimit: 0\n", tc.servers))
			s := startSubmitted(t, append(slices.Clone(cartPole), "-f", dir, "--submit", file)...)
			folder := filepath.Join(dir, "cart", "ppo", "classic-CartPole-v1_1")
			s.waitFor(t, "a checkpoint", func() bool { return checkpoints(t, folder) > 0 })
			for _, pod := range tc.evicted {
				evicted, err := os.FindProcess(s.process(t, pod))
				if err == nil {
					err = evicted.Signal(syscall.SIGTERM)
				}
				if err != nil {
					t.Fatal(err)
				}
				s.waitFor(t, "a pod in the place of "+pod, func() bool { return len(s.at("^pod "+pod+" started")) == 2 })
			}
			pids := []int{s.process(t, "cart-learner-0-0")}
			for i := range tc.servers {
				pids = append(pids, s.process(t, fmt.Sprintf("cart-server-0-%d", i)))
			}
			if err := s.end(); err != nil {
				t.Fatalf("the workload ended with %v", err)
			}
			ready, learner := s.at("^pod cart-server-0-. is ready"), s.at("^pod cart-learner-0-0 started")
			if len(ready) < tc.servers || tc.servers > 0 && ready[tc.servers-1] > learner[0] {
				t.Errorf("servers ready at lines %v, the learner started at %v; want %d servers before it", ready, learner, tc.servers)
			}
			for pattern, want := range map[string]int{
				"was evicted": len(tc.evicted), "^pod cart-learner-0-0 succeeded": 1, "^cart is complete$": 1, " failed ": 0,
			} {
				if got := len(s.at(pattern)); got != want {
					t.Errorf("%d lines match %s, want %d", got, pattern, want)
				}
			}
			for _, pid := range pids {
				if p, err := os.FindProcess(pid); err == nil {
					if err := p.Signal(syscall.Signal(0)); !errors.Is(err, os.ErrProcessDone) {
						t.Errorf("process %d is there after the end: %v", pid, err)
					}
				}
			}
			trainings, err := filepath.Glob(filepath.Join(filepath.Dir(folder), "*"))
			if err != nil || len(trainings) != 1 {
				t.Errorf("trainings %v, %v; want one, which was resumed", trainings, err)
			}
			got := tensors(t, filepath.Join(folder, model))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the model is not that of an undisturbed training:\n%.500s", diff)
			}
		})
	}
}

// TestSubmitLocalFails: a learner that fails is started again backoffLimit times; then the workload fails, and its servers
// end.
func TestSubmitLocalFails(t *testing.T) {
	dir := t.TempDir()
	file := workloadFile(t, "kind: local\nname: cart\nbackoffLimit: 1\n")
	if err := os.WriteFile(filepath.Join(dir, "cart"), nil, 0o600); err != nil { // where the folder of logs should be
		t.Fatal(err)
	}
	t.Setenv(clitest.ChildVariable, "1")
	out, _, err := execute(t, context.Background(), append(slices.Clone(cartPole), "-f", dir, "--submit", file)...)
	if err == nil || !strings.Contains(err.Error(), "pod cart-learner-0-0 ended with exit status 1; backoffLimit is 1") {
		t.Errorf("the workload ended with %v, want that the learner failed", err)
	}
	if n := strings.Count(out, "pod cart-learner-0-0 started"); n != 2 {
		t.Errorf("the learner started %d times, want 2", n)
	}
	if !strings.Contains(out, "pod cart-server-0-0 ended") {
		t.Errorf("the server did not end:\n%s", out)
	}
}

// TestSubmitLocalInterrupted: an interrupt lets the learner save a checkpoint, from which the same command resumes.
func TestSubmitLocalInterrupted(t *testing.T) {
	dir := t.TempDir()
	file := workloadFile(t, "kind: local\nname: cart\n")
	args := append(slices.Clone(cartPole), "-f", dir, "--save-freq", "0", "--submit", file)
	s := startSubmitted(t, args...)
	folder := filepath.Join(dir, "cart", "ppo", "classic-CartPole-v1_1")
	s.waitFor(t, "two rows of the log", func() bool {
		text, err := os.ReadFile(filepath.Join(folder, "progress.csv"))
		return err == nil && strings.Count(string(text), "\n") > 2
	})
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := s.end(); !errors.As(err, &exit) || exit.ExitCode() != cli.StatusInterrupted {
		t.Fatalf("the workload ended with %v, want status %d", err, cli.StatusInterrupted)
	}
	if n := checkpoints(t, folder); n != 1 {
		t.Errorf("%d checkpoints after the interrupt, want 1", n)
	}
	s = startSubmitted(t, args...)
	if err := s.end(); err != nil {
		t.Fatalf("the workload ended with %v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "classic-CartPole-v1.safetensors")); err != nil {
		t.Errorf("the training was not resumed to its end: %v", err)
	}
}

// TestSubmitDryRun: the manifests have the flags of the command and nothing else of this machine; a file of hyperparameters
// goes along.
func TestSubmitDryRun(t *testing.T) {
	conf := envstest.TempFile(t, "mine.yml", "n_envs: 4\nn_steps: 64\n")
	out := mustExecute(t, "train", "--env", "k8s/GangWindow-v0", "--env-kwargs", "windows:5", "--env-kwargs", "penalty:45", "--conf-file", conf, "--submit", workloadFile(t, "---\nservers: 2\n---\n# no more\n"), "--dry-run")
	for _, want := range []string{
		"kind: JobSet", "kind: PersistentVolumeClaim", "kind: Secret", "kind: ConfigMap", "name: ppo-k8s-gangwindow-v0\n",
		"- --env-kwargs=windows:5\n              - --env-kwargs=penalty:45\n", "- --conf-file=/conf/mine.yml\n",
		"- --url=ws://ppo-k8s-gangwindow-v0-server-0-1.ppo-k8s-gangwindow-v0:8765\n",
		"  mine.yml: bl9lbnZzOiA0Cm5fc3RlcHM6IDY0Cg==\n", // base64 of the file: `base64 mine.yml`
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, not := range []string{filepath.Dir(conf), "--submit", "--dry-run"} {
		if strings.Contains(out, not) {
			t.Errorf("%q is in\n%s", not, out)
		}
	}
}

// TestSubmitFileOfPods: an option may name a file that only the workload's pods have.
func TestSubmitFileOfPods(t *testing.T) {
	option := "trace:" + filepath.Join(t.TempDir(), "only-there.jsonl")
	out := mustExecute(t, "train", "--env", "k8s/PodBalance-v0", "--env-kwargs", option, "--submit", workloadFile(t, ""), "--dry-run")
	if want := "- --env-kwargs=" + option + "\n"; !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

// TestSubmitDryRunJSON: with --json the manifests are one document, a list of Kubernetes.
func TestSubmitDryRunJSON(t *testing.T) {
	out := mustExecute(t, "train", "--env", "k8s/GangWindow-v0", "--submit", workloadFile(t, "kind: job"), "--dry-run", "--json")
	var list struct {
		APIVersion, Kind string
		Items            []struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	var kinds []string
	for _, item := range list.Items {
		kinds = append(kinds, item.Kind)
	}
	if want := []string{"Job", "Secret", "PersistentVolumeClaim"}; list.APIVersion != "v1" || list.Kind != "List" || !slices.Equal(kinds, want) {
		t.Errorf("%s %s of %v, want v1 List of %v", list.APIVersion, list.Kind, kinds, want)
	}
}

// TestSubmitRefuses: what does not fit a workload is an error before anything starts.
func TestSubmitRefuses(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	for _, tc := range []struct {
		file string
		args []string
		want string
	}{
		{"", nil, "no cluster: neither KUBECONFIG nor ~/.kube/config names one"},
		{"context: mine", nil, `context "mine" does not exist`},
		{"", []string{"--url", "ws://127.0.0.1:1"}, "--submit goes without --url"},
		{"", []string{"--resume", "logs"}, "--submit goes without --resume"},
		{"", []string{"--resume-newest"}, "--submit goes without --resume-newest"},
		{"", []string{"-f", "here"}, "--submit goes without --log-folder"},
		{"servers: 3", []string{"--params", "n_envs:2"}, "servers: 3, but n_envs is 2"},
		{"server: 3", nil, "cannot unmarshal number"},
		{"sevrers: 3", nil, `unknown field "sevrers"`},
		{"servers: -1", nil, "servers: -1, want 0 to 64"},
		{"kind: pod", nil, `kind: "pod", want jobset, job or local`},
		{"name: Mine", nil, `name: "Mine", want`},
		{"name: " + strings.Repeat("x", 41), nil, "at most 40"},
		{"kind: local\nqueue: q", nil, "kind: local has no Kueue"},
		{"volume: {claim: c, size: 1Gi}", nil, "claim c exists"},
		{"backoffLimit: -1", nil, "backoffLimit: -1"},
		{"kind: job\n---\nservers: 3", nil, "workload.yaml: document 2: want one YAML document in the file"},
		{"---\n---\nservers: 3", nil, "document 2: want one"},
		{"kind: job\n---\n}", nil, "document 2: yaml: line"},
		{"", []string{"--env", "k8s/PodBalance-v0", "--env-kwargs", "node:3"}, `make k8s/PodBalance-v0: envs: invalid option: unknown option "node"; did you mean "nodes"?`},
		{"", []string{"--env", "k8s/PodBalance-v0", "--eval-env-kwargs", "node:3", "--dry-run"}, `did you mean "nodes"?`},
		{"", []string{"--env", "k8s/GangWindow-v0", "--env-kwargs", "windows:0", "--dry-run"}, "windows is 0, want 1 to 20"},
	} {
		args := append([]string{"train", "--env", "classic/CartPole-v1", "--submit", workloadFile(t, tc.file)}, tc.args...)
		if _, _, err := execute(t, context.Background(), args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q with %q: %v, want an error with %q", tc.file, tc.args, err, tc.want)
		}
	}
	if _, _, err := execute(t, context.Background(), "train", "--dry-run"); err == nil || !strings.Contains(err.Error(), "--submit: give both") {
		t.Errorf("--dry-run alone: %v", err)
	}
}
