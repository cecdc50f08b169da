package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/wire"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// commandTimeout is for one command on a busy machine; most take less than a second.
const commandTimeout = 3 * time.Minute

// substituted returns args with the words OLD=>NEW of a HOW carried out, and its other words.
func substituted(args, words []string) (out, more []string) {
	out = slices.Clone(args)
	for _, w := range words {
		old, replacement, ok := strings.Cut(w, "=>")
		if !ok {
			more = append(more, w)
			continue
		}
		for i := range out {
			out[i] = strings.ReplaceAll(out[i], old, replacement)
		}
	}
	return out, more
}

// shortEpisodes are the options that make an environment's episodes short.
var shortEpisodes = []struct{ env, option string }{
	{"GangWindow", "steps:10"}, {"GangForecast", "steps:4"}, {"PodBalance", "steps:10"}, {"VerticalPodAutoscaler", "steps:10"}, {"GPUPodScheduling", "num_pods:30"},
	{"LRAPlacement", "containers:30"}, {"LRAPricing", "containers:60"}, {"LRAOnline", "containers:60"},
}

// shortForm returns the arguments that make a command short, to be added at its end.
func shortForm(args []string) (more []string) {
	line := strings.Join(args, " ")
	has := func(text string) bool { return strings.Contains(line, text) }
	add := func(words string) { more = append(more, strings.Fields(words)...) }
	path := args[0]
	switch path {
	case "eval", "compare", "train", "enjoy":
		for _, e := range shortEpisodes {
			name, _, _ := strings.Cut(e.option, ":")
			if has("hold:") { // an action holds for so many steps
				add("--env-kwargs steps:120")
				break
			}
			if has(e.env) && !has(name+":") || path == "train" && !has("--env ") && e.env == "GangWindow" {
				add("--env-kwargs " + e.option)
				break
			}
		}
	}
	switch path {
	case "eval", "compare":
		add("--episodes 2")
	case "enjoy":
		add("--episodes 1 --fps 0")
	case "train":
		add("-n 64 --eval-freq 64 --eval-episodes 2 --save-freq 64")
		switch {
		case has("--algo dqn"):
			add("--params n_envs:1 --params learning_starts:32 --params buffer_size:1000 --params batch_size:32")
		case has("--algo a2c"):
			add("--params n_envs:1 --params n_steps:32")
		case has("--algo reinforce"):
			add("--params n_envs:1 --params n_episodes:1")
		default:
			add("--params n_envs:1 --params n_steps:32 --params batch_size:32 --params n_epochs:1")
		}
		if has("--seeds") {
			add("--seeds 1..2")
		}
		if has("--compare") {
			add("--compare 2")
		}
		if has("--imitate") {
			add("--imitate-steps 100 --imitate-epochs 1")
		}
	case "gang":
		if has("regret") {
			add("--episodes 2 --env-kwargs steps:10")
		}
	case "lra":
		if args[1] == "advantage" {
			add("--episodes 2 --steps 20 --env-kwargs nodes:4 --env-kwargs containers:60")
		}
	case "podsched":
		if args[1] == "advantage" {
			add("--episodes 2 --futures 1 --steps 20 --env-kwargs num_nodes:8")
		}
		if slices.Contains([]string{"dqn", "gnn", "acdqn", "acgnn"}, args[1]) {
			add("-n 256 --eval-freq 128 --eval-episodes 2")
			if has("GPUPodScheduling") {
				add("--env-kwargs num_pods:30")
			} else {
				add("--env-kwargs steps:10")
			}
			if has("--seeds") {
				add("--seeds 1..2")
			}
			if has("--compare") {
				add("--compare 2")
			}
		}
	case "tune":
		switch {
		case has("--baseline"):
			add("-n 20 --eval-episodes 2")
		case !has("--resume"):
			add("-n 512 --n-trials 3 --eval-episodes 2")
			if has("--algo ppo") {
				add("--params n_steps:32 --params batch_size:32 --params n_epochs:1")
			} else {
				add("--params n_steps:16") // of equal rollouts, whose multiple is within -n
			}
		}
	}
	return more
}

// wherever are parts of arguments that mean something else on this machine.
type wherever struct {
	servers [2]string
	data    string // folder of public data; empty: there is none
}

// savedModel is a model that a training of the documents would have written.
var savedModel = regexp.MustCompile(`^logs/(?:[\w-]+/)*?(ppo|a2c|dqn|ppo_lstm|reinforce)/((?:k8s|classic)-\w+-v0|classic-CartPole-v1)_\d+/.*\.safetensors$`)

// prepareFolder makes the test's folder look like the repository's root to the commands: with the models
// that they play, and with those that the trainings before them would have saved.
func prepareFolder(t *testing.T, commands map[string]documented) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, folder := range []string{"models/pretrained", "kwok/kubeyaml/testdata", "envs/podsched/gpushare/testdata"} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(folder, os.DirFS(filepath.Join(root, folder))); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"docs/img", "DIR"} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range commands {
		for _, a := range d.args {
			m := savedModel.FindStringSubmatch(a)
			if m == nil {
				continue
			}
			text, err := os.ReadFile(filepath.Join("models/pretrained", m[2], m[1]+".safetensors"))
			if err == nil {
				err = errors.Join(os.MkdirAll(filepath.Dir(a), 0o755), os.WriteFile(a, text, 0o644))
			}
			if err != nil {
				t.Fatalf("%s of %s: %v", a, d.where, err)
			}
		}
	}
	writeInputs(t)
}

// writeInputs writes files that the documents' commands name and leave to the reader.
func writeInputs(t *testing.T) {
	t.Helper()
	usage := "time_s,cpu_m,mem_b\n"
	for i := range 200 {
		usage += fmt.Sprintf("%d,%d,%d\n", 60*i, 150+100*(i%3), (300+10*(i%7))<<20)
	}
	for name, text := range map[string]string{
		"usage.csv":      usage,
		"scheduler.yaml": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
		"laws.json":      `{}`,
	} {
		envstest.Write(t, name, text)
	}
	for _, name := range []string{"day.jsonl.zst", "openb.jsonl.zst"} {
		w, err := clustertrace.Create(name, clustertrace.Header{Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err != nil {
			t.Fatal(err)
		}
		law := clustertrace.Synthetic{Nodes: 20, Pods: 300, Span: 24 * time.Hour, Load: 0.5, GPUNodes: 0.3}
		if err := errors.Join(clustertrace.Synthesize(w, law, rand.New(rand.NewPCG(0, 0))), w.Close(law.Span)); err != nil {
			t.Fatal(err)
		}
	}
}

// runDocumented runs the commands of one kind, run or kwok, in the order of the list.
func runDocumented(t *testing.T, kind string, w wherever) {
	all, how := allDocumented(t), readCommands(t)
	t.Setenv(cli.DataVariable, w.data) // the folder below has no neighbour of that name
	prepareFolder(t, all)
	for _, key := range slices.Sorted(maps.Keys(how)) {
		words := strings.Fields(how[key])
		d, ok := all[key]
		if words[0] != kind || !ok { // TestCommandsAreListed says what is missing
			continue
		}
		t.Run(key, func(t *testing.T) {
			args, more := substituted(d.args, words[1:])
			until := ""
			if n := len(more); n > 0 && strings.HasPrefix(more[n-1], "until:") {
				until, more = strings.TrimPrefix(more[n-1], "until:"), more[:n-1]
			}
			args = beforeDashes(args, append(shortForm(args), more...))
			for i, a := range args {
				if strings.Contains(a, "../shared/data") && w.data == "" {
					t.Skip("needs public data: set KUBERNASIUM_DATA to the folder that holds it")
				}
				args[i] = strings.NewReplacer("../shared/data", w.data, "{kubeconfig}", os.Getenv(kwok.KubeconfigVariable), "ws://127.0.0.1:8765", w.servers[0], "ws://127.0.0.1:8766", w.servers[1]).Replace(a)
			}
			begin := time.Now()
			if err := runUntil(t.Context(), args, until); err != nil {
				t.Errorf("%s: trainer %s: %v", d.where, strings.Join(args, " "), err)
			}
			t.Logf("%.1f s: trainer %s", time.Since(begin).Seconds(), strings.Join(args, " "))
		})
	}
}

// beforeDashes adds flags before "--", after which they would be another program's.
func beforeDashes(args, more []string) []string {
	at := slices.Index(args, "--")
	if at < 0 {
		at = len(args)
	}
	return slices.Insert(slices.Clone(args), at, more...)
}

// runUntil runs a command to its end or, where it serves, until it has printed a text.
func runUntil(ctx context.Context, args []string, text string) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	out := clitest.NewUntilText(text, func() {
		if text != "" {
			cancel()
		}
	})
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(out)
	err := cmd.ExecuteContext(ctx)
	if text != "" && strings.Contains(out.String(), text) {
		return nil // what it says of being stopped is no matter
	}
	if err == nil && text != "" {
		err = fmt.Errorf("it ended without %q", text)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// serveEnvs starts a server and returns its URL. Unlike hosttest's it does not count goroutines:
// connections of commands to a control plane outlive them.
func serveEnvs(t *testing.T) string {
	t.Helper()
	s := host.New(host.Config{Limits: wire.DefaultLimits(), Version: "test", DrainFor: 5 * time.Second, Log: slog.New(slog.DiscardHandler)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Shutdown(context.Background()), <-done); err != nil {
			t.Error(err)
		}
	})
	return "ws://" + l.Addr().String() + wire.Path
}

// TestDocumentedCommands runs the commands of the documents and of --help, in a short form.
func TestDocumentedCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute: run without -short")
	}
	w := wherever{servers: [2]string{serveEnvs(t), serveEnvs(t)}, data: cli.DataFolder()}
	runDocumented(t, "run", w)
}

// TestKwokDocumentedCommands runs those that need a control plane.
func TestKwokDocumentedCommands(t *testing.T) {
	w := wherever{servers: [2]string{serveEnvs(t)}, data: cli.DataFolder()}
	t.Setenv(kwok.KubeconfigVariable, kwoktest.Start(t, "--admission=MutatingAdmissionWebhook").Kubeconfig)
	runDocumented(t, "kwok", w)
}
