package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/kubernasium/kubernasium/kwok/controlplane/plane"
	"github.com/kubernasium/kubernasium/kwok/launch"
)

// tokenEnv names the environment variable that holds the bearer token.
const tokenEnv = "KUBERNASIUM_TOKEN"

// Settings of Go's garbage collector, unless GOGC and GOMEMLIMIT override them. They cost a third less CPU per
// pod than 100 %, and limit the heap, which otherwise grows to several GB.
const (
	gcPercent   = 400
	memoryLimit = 1 << 30
)

// linkedCommit is the commit with its date if the linker sets it. Wheels need it, because Go builds them
// without version control: -ldflags "-X 'main.linkedCommit=abc of 2030-01-02T03:04:05Z'".
var linkedCommit string

// options holds the values of the flags.
type options struct {
	plane         plane.Config
	listen        string
	tokenFile     string
	clock         string
	authorization string
	durable       bool
	logLevel      string
	exitWithStdin bool
	extra         []string
}

func newCommand() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "controlplane",
		Short: "Run etcd, kube-apiserver, kube-scheduler, kube-controller-manager and KWOK in one process",
		Args:  cobra.NoArgs, SilenceUsage: true, SilenceErrors: true, Version: versions()["kubernetes"],
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetVersionTemplate(versionText())
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "address of the API server; port 0 selects a free one. An address beyond the loopback interface needs a token")
	f.StringSliceVar(&o.plane.Hosts, "host", nil, "name or address at which clients reach the API server, besides the loopback ones; the kubeconfig has the first")
	f.StringVar(&o.tokenFile, "token-file", "", "file that holds the bearer token of clients; default: the variable "+tokenEnv+", else one is made")
	f.StringVar(&o.plane.Kubeconfig, "kubeconfig", "", "file to write for clients (default kubeconfig in the data folder)")
	f.StringVar(&o.plane.DataDir, "data-dir", "", "folder of the state, which is kept and can be reused (default a temporary one in memory)")
	f.BoolVar(&o.durable, "durable", false, "write to the disk at each change (fsync), so that --data-dir outlives a crash of the machine")
	f.StringSliceVar(&o.plane.Components, "components", plane.Components, "components to run besides etcd and kube-apiserver; empty: none")
	f.StringSliceVar(&o.plane.Controllers, "controllers", plane.DefaultControllers, "controllers of kube-controller-manager")
	f.StringVar(&o.plane.SchedulerConfig, "scheduler-config", "", "file with a KubeSchedulerConfiguration: profiles, extenders")
	f.StringVar(&o.authorization, "authorization", "always-allow", "always-allow: a client with the token may do everything; rbac: roles decide, and pods get their service account's token")
	f.StringSliceVar(&o.plane.Admission, "admission", nil, "admission plugins to enable that are off for speed, such as LimitRanger or ServiceAccount; their controllers run, too")
	f.StringSliceVar(&o.plane.CRDs, "enable-crds", nil, "KWOK's kinds of objects that say what kubectl logs, exec, attach and port-forward do: "+strings.Join(plane.CRDs(), ", ")+". Whoever may create Exec or PortForward objects may run commands as the user of this process, and with Logs or Attach read files")
	f.StringSliceVar(&o.plane.Stages, "stages", nil, "YAML files with KWOK's stages, or folders of them, instead of the default ones")
	f.StringVar(&o.clock, "clock", "real", "KWOK's clock: real, or stepped by POST "+plane.ClockPath)
	f.StringArrayVar(&o.extra, "extra", nil, "COMPONENT:--FLAG, an additional flag of kube-apiserver, kube-scheduler or kube-controller-manager; may be repeated")
	f.StringVar(&o.logLevel, "log-level", "info", "debug (with the components' own logs), info, warn or error")
	f.Bool("version", false, "print the versions of this program and of its components") // Kubernetes' libraries define a flag of another type
	f.BoolVar(&o.exitWithStdin, "exit-with-stdin", false, "stop at the end of stdin, so that the control plane ends with the process that started it")
	cmd.AddCommand(newHealth())
	return cmd
}

// token returns the bearer token of clients, or "" if the plane generates one.
func (o *options) token() (string, error) {
	if o.tokenFile == "" {
		return os.Getenv(tokenEnv), nil
	}
	b, err := os.ReadFile(o.tokenFile)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("%s holds no token", o.tokenFile)
	}
	return token, nil
}

// complete checks the flags and sets derived values.
func (o *options) complete() error {
	var err error
	if o.plane.Token, err = o.token(); err != nil {
		return err
	}
	name, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return fmt.Errorf("--listen %q: %w", o.listen, err)
	}
	ip := net.ParseIP(name)
	if local := name == "localhost" || ip != nil && ip.IsLoopback(); !local && o.plane.Token == "" {
		return fmt.Errorf("--listen %s reaches beyond the loopback interface and needs a token: --token-file or %s", o.listen, tokenEnv)
	}
	if o.durable && o.plane.DataDir == "" {
		return errors.New("--durable needs --data-dir: a temporary folder does not last")
	}
	o.plane.Fsync = o.durable
	for _, c := range o.plane.Components {
		if !slices.Contains(plane.Components, c) {
			return fmt.Errorf("--components has %q, which is none of %s", c, strings.Join(plane.Components, ", "))
		}
	}
	for _, kind := range o.plane.CRDs {
		if !slices.Contains(plane.CRDs(), kind) {
			return fmt.Errorf("--enable-crds has %q, which is none of %s", kind, strings.Join(plane.CRDs(), ", "))
		}
	}
	if len(o.plane.CRDs) > 0 && !slices.Contains(o.plane.Components, plane.KWOK) {
		return errors.New("--enable-crds needs the component " + plane.KWOK)
	}
	switch o.clock {
	case "real", "stepped":
		o.plane.Stepped = o.clock == "stepped"
	default:
		return fmt.Errorf("--clock is %q, want real or stepped", o.clock)
	}
	switch o.authorization {
	case "always-allow", "rbac":
		o.plane.RBAC = o.authorization == "rbac"
	default:
		return fmt.Errorf("--authorization is %q, want always-allow or rbac", o.authorization)
	}
	o.plane.ExtraFlags = map[string][]string{}
	for _, e := range o.extra {
		component, f, _ := strings.Cut(e, ":")
		switch component {
		case plane.APIServer, plane.Scheduler, plane.ControllerManager:
		default:
			return fmt.Errorf("--extra %q, want COMPONENT:--FLAG with a component of %s, %s, %s", e, plane.APIServer, plane.Scheduler, plane.ControllerManager)
		}
		o.plane.ExtraFlags[component] = append(o.plane.ExtraFlags[component], f)
	}
	return nil
}

// run starts the control plane and waits until ctx, stdin or a component ends.
func (o *options) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	begin := time.Now()
	if err := o.complete(); err != nil {
		return err
	}
	log, err := o.logger(stderr)
	if err != nil {
		return err
	}
	o.plane.Log = log
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.exitWithStdin {
		// The goroutine ends with the process: a read of stdin cannot be interrupted.
		go func() {
			_, _ = io.Copy(io.Discard, stdin) // only the end of stdin matters
			cancel()
		}()
	}
	if o.plane.Listener, err = net.Listen("tcp", o.listen); err != nil {
		return err
	}
	p, err := plane.Start(ctx, o.plane)
	if err != nil {
		return err
	}
	line := launch.Ready{
		URL: p.URL, Kubeconfig: p.Kubeconfig, DataDir: p.DataDir, PID: os.Getpid(), Components: o.plane.Components,
		Clock: o.clock, Versions: versions(), Seconds: time.Since(begin).Seconds(),
	}
	if err := json.NewEncoder(stdout).Encode(line); err != nil {
		return errors.Join(err, p.Stop())
	}
	log.Info("ready", "url", p.URL, "kubeconfig", p.Kubeconfig)
	select {
	case <-ctx.Done():
		err = nil
	case err = <-p.Failed():
	}
	log.Info("stopping")
	return errors.Join(err, p.Stop())
}

// logger returns our logger. Messages of Kubernetes' components appear only at level debug, because they report
// disconnected clients and our own stop as errors. Errors that end the process always appear.
func (o *options) logger(stderr io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	kubernetes := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(kubernetes)
	args := []string{"-logtostderr=false", "-alsologtostderr=false", "-stderrthreshold=FATAL", "-one_output", "-log_file=" + os.DevNull}
	if level <= slog.LevelDebug {
		args = []string{"-v=1"}
	}
	if err := kubernetes.Parse(args); err != nil {
		return nil, err
	}
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})), nil
}

// versionText returns the output of --version: the module, its commit and date, Go, and the components.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	commit := cmp.Or(linkedCommit, "unknown: built without version control")
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["vcs.revision"] != "" {
		commit = settings["vcs.revision"] + " of " + settings["vcs.time"]
		if settings["vcs.modified"] == "true" {
			commit += ", modified"
		}
	}
	text := fmt.Sprintf("controlplane\nmodule: %s %s\ncommit: %s\ngo: %s %s/%s\n", info.Main.Path, info.Main.Version, commit, info.GoVersion, runtime.GOOS, runtime.GOARCH)
	of := versions()
	for _, name := range []string{"kubernetes", "etcd", "kwok"} {
		text += name + ": " + of[name] + "\n"
	}
	return text
}

// versions returns the versions that this binary was built from.
func versions() map[string]string {
	of := map[string]string{"k8s.io/kubernetes": "kubernetes", "go.etcd.io/etcd/server/v3": "etcd", "sigs.k8s.io/kwok": "kwok"}
	found := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if name := of[m.Path]; name != "" {
				found[name] = m.Version
			}
		}
	}
	return found
}
