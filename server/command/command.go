// Package command is the command line of the server, for the program server and the trainer's
// command serve.
package command

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/board"
	_ "github.com/kubernasium/kubernasium/registry" // registers what is served
	"github.com/kubernasium/kubernasium/server/credentials"
	"github.com/kubernasium/kubernasium/server/guard"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/session"
	"github.com/kubernasium/kubernasium/server/wire"
	"github.com/kubernasium/kubernasium/version"
)

// tokenEnv names the environment variable that holds the bearer token.
const tokenEnv = "KUBERNASIUM_TOKEN"

// options are the flags.
type options struct {
	listen, unix, tokenFile string
	certFile, keyFile       string
	clientCA                string
	logLevel                string
	origins, denyOptions    []string
	denyFiles               bool
	exitWithStdin, board    bool
	failOnStop              bool
	removeFolder            string
	drain, idle, handshake  time.Duration
	lease                   time.Duration
	maxPending              int
	limits                  wire.Limits
	tls                     *tls.Config // nil without a certificate
}

// Main runs the command line of this process until SIGINT or SIGTERM ends it, and returns the exit
// status. A second signal ends the process at once.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop)
	cmd := New("server")
	cmd.SetIn(os.Stdin)
	cmd.SetOut(os.Stdout)
	cmd.SetErr(os.Stderr)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		return 1
	}
	return 0
}

// New returns the command that serves until its context ends, under the given name.
func New(name string) *cobra.Command {
	o := options{limits: wire.DefaultLimits()}
	cmd := &cobra.Command{
		Use:   name,
		Short: "Serve Kubernasium's environments over WebSocket and unix sockets",
		Args:  cobra.NoArgs, Version: version.Number, SilenceUsage: true, SilenceErrors: true,
	}
	cmd.SetVersionTemplate(version.Text("server"))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("deny-files") {
			o.denyFiles = !o.local()
		}
		err := o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		if err == nil && o.failOnStop {
			return errStopped
		}
		return err
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8765", "address of HTTP and WebSocket; port 0 takes a free one, empty listens on none. An address beyond the loopback interface needs a token")
	f.StringVar(&o.unix, "unix", "", "path of a unix socket to listen on")
	f.StringVar(&o.tokenFile, "token-file", "", "file with one client on each line: its bearer token and quota (PROTOCOL.md); read again when it changes. Default: one token, in the variable "+tokenEnv)
	f.StringVar(&o.certFile, "tls-cert", "", "file of the certificate, for wss; read again when it changes, as its key is")
	f.StringVar(&o.keyFile, "tls-key", "", "file of its key")
	f.StringVar(&o.clientCA, "tls-client-ca", "", "file of CA certificates for client certificates, which are then required; read again when it changes")
	f.StringSliceVar(&o.origins, "origin", nil, "web origin that may connect, such as http://localhost:3000; may be repeated")
	f.StringSliceVar(&o.denyOptions, "deny-options", nil, "options that clients may not give, by name")
	f.BoolVar(&o.denyFiles, "deny-files", false, "reject options that name files for the server to read; beyond the loopback interface true by default")
	f.BoolVar(&o.board, "board", false, "show sessions, steps and latencies on a page at /; with a token visitors open /?token=TOKEN")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.BoolVar(&o.exitWithStdin, "exit-with-stdin", false, "stop at the end of stdin, so that the server ends with the process that started it")
	f.BoolVar(&o.failOnStop, "fail-on-stop", false, "end with a status other than 0 when stopped: a Job of Kubernetes replaces no pod that ends with 0")
	f.StringVar(&o.removeFolder, "remove-folder", "", "folder of the unix socket, removed with its contents when the server ends")
	f.DurationVar(&o.drain, "drain", 5*time.Second, "time for running requests when the server stops")
	f.DurationVar(&o.idle, "idle-timeout", 10*time.Minute, "time without a request after which a session is closed; 0 is none")
	f.DurationVar(&o.handshake, "handshake-timeout", 10*time.Second, "time that a client has to say hello; 0 is none")
	f.IntVar(&o.maxPending, "max-pending", min(host.DefaultPending, max(1, openFiles()/2)), "connections that have shown no token or said no hello; when there are as many, the oldest makes way for the next")
	f.DurationVar(&o.lease, "lease", 2*time.Minute, "time to resume a session whose connection is lost; 0 resumes none")
	f.IntVar(&o.limits.MsgIn, "max-message", o.limits.MsgIn, "bytes of a request")
	f.IntVar(&o.limits.MsgOut, "max-reply", o.limits.MsgOut, "bytes of a reply")
	f.IntVar(&o.limits.EnvsMake, "max-envs-make", o.limits.EnvsMake, "environments of one vector")
	f.IntVar(&o.limits.EnvsSession, "max-envs-session", o.limits.EnvsSession, "environments of one session")
	f.IntVar(&o.limits.EnvsServer, "max-envs", o.limits.EnvsServer, "environments of the server")
	f.IntVar(&o.limits.Sessions, "max-sessions", o.limits.Sessions, "sessions of the server")
	f.IntVar(&o.limits.Rollout, "max-rollout", o.limits.Rollout, "environment steps of one rollout")
	f.IntVar(&o.limits.Snapshots, "max-snapshots-session", o.limits.Snapshots, "environments in snapshots of one session")
	f.Int64Var(&o.limits.MemoryServer, "memory", 0, "estimated bytes of all environments and snapshots; 0 is half of the memory of the machine or its cgroup")
	f.Int64Var(&o.limits.MemorySession, "memory-session", 0, "likewise of one session; 0 is half of --memory")
	f.IntVar(&o.limits.SnapsServer, "max-snapshots", o.limits.SnapsServer, "environments in snapshots of the server")
	f.IntVar(&o.limits.Inflight, "max-inflight", o.limits.Inflight, "requests of a session without a reply")
	return cmd
}

// errStopped is the error of a server that a signal has stopped, with --fail-on-stop.
var errStopped = errors.New("stopped")

// local reports whether only this machine can reach the server.
func (o *options) local() bool {
	if o.listen == "" {
		return true
	}
	name, _, err := net.SplitHostPort(o.listen)
	return err == nil && guard.IsLoopback(name)
}

// clients returns the guard of HTTP and WebSocket requests, and the quotas of clients by token; nil: no quotas.
func (o *options) clients(log *slog.Logger) (g guard.Guard, quota func(token string) *session.Quota, err error) {
	g = guard.Guard{Accept: guard.Only(os.Getenv(tokenEnv)), Certify: o.clientCA != "", Origins: o.origins}
	if o.tokenFile != "" {
		tokens, err := credentials.ReadTokens(o.tokenFile, log)
		if err != nil {
			return g, nil, err
		}
		g.Accept, quota = tokens.Accept, tokens.Quota
	}
	return g, quota, nil
}

// page returns the maker of the page for --board, or nil without that flag.
func (o *options) page(g guard.Guard) func(http.Handler, func() []host.SessionInfo) (http.Handler, func()) {
	if !o.board {
		return nil
	}
	return func(metrics http.Handler, sessions func() []host.SessionInfo) (http.Handler, func()) {
		page := board.New(board.Config{Guard: g, Metrics: metrics, Sessions: func() []board.SessionInfo { return shown(sessions()) }}) // without episodes, there is nothing to close
		return page, page.EndStreams
	}
}

// shown converts sessions for the page.
func shown(sessions []host.SessionInfo) []board.SessionInfo {
	list := make([]board.SessionInfo, len(sessions))
	for i, s := range sessions {
		list[i] = board.SessionInfo{ID: s.ID, Connected: s.Connected, Running: s.Running, Waiting: s.Waiting, Environments: []board.LiveEnvs{}}
		for _, l := range s.Live {
			list[i].Environments = append(list[i].Environments, board.LiveEnvs{Env: l.Env, NumEnvs: l.N, Steps: l.Steps})
		}
	}
	return list
}

func (o *options) validate(g *guard.Guard) error {
	switch {
	case o.listen == "" && o.unix == "":
		return errors.New("neither --listen nor --unix gives an address")
	case !o.local() && !g.Asks():
		return fmt.Errorf("--listen %s reaches beyond the loopback interface and needs a token, by --token-file or %s, or --tls-client-ca", o.listen, tokenEnv)
	case o.removeFolder != "" && filepath.Dir(o.unix) != filepath.Clean(o.removeFolder):
		return fmt.Errorf("--remove-folder %s is not the folder of --unix %q", o.removeFolder, o.unix)
	case (o.certFile == "") != (o.keyFile == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case o.clientCA != "" && o.certFile == "":
		return errors.New("--tls-client-ca needs --tls-cert and --tls-key")
	case o.maxPending < 1:
		return fmt.Errorf("--max-pending %d, want at least 1", o.maxPending)
	case o.limits.Inflight < 1 || o.limits.MsgIn < 1024 || o.limits.MsgOut < 1024:
		return errors.New("--max-inflight, --max-message or --max-reply is too small")
	}
	return nil
}

// run serves until ctx or stdin ends.
func (o *options) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	g, quota, err := o.clients(log)
	if err != nil {
		return err
	}
	if err := o.validate(&g); err != nil {
		return err
	}
	if o.certFile != "" {
		if o.tls, err = credentials.TLS(o.certFile, o.keyFile, o.clientCA, log); err != nil {
			return err
		}
	}
	o.limitMemory()
	o.limits.IdleMS, o.limits.HandshakeMS = int(o.idle.Milliseconds()), int(o.handshake.Milliseconds())
	o.limits.LeaseMS = int(o.lease.Milliseconds())
	s := host.New(host.Config{
		Limits: o.limits, Version: version.Number, Guard: g, Quota: quota, DenyOptions: o.denyOptions, DenyFiles: o.denyFiles, ReportCauses: o.local(), DrainFor: o.drain, MaxPending: o.maxPending, Log: log,
		Page: o.page(g),
	})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if o.removeFolder != "" {
		defer func() {
			if err := os.RemoveAll(o.removeFolder); err != nil {
				log.Error("remove folder", "err", err)
			}
		}()
	}
	if o.exitWithStdin {
		// The goroutine ends with the process: a read of stdin cannot be interrupted.
		go func() {
			_, _ = io.Copy(io.Discard, stdin) // only the end of stdin matters
			cancel(errOrphan)
		}()
	}
	return o.serve(ctx, s, stdout, log)
}

// errOrphan is the cause of the server's end if the process that started it has ended.
var errOrphan = errors.New("the end of stdin")

// orphanDrain bounds --drain at the end of stdin: the process that started the server no longer waits for replies.
const orphanDrain = time.Second

// ready is a line on stdout that tells the parent process where the server listens.
type ready struct {
	URL     string `json:"url"`
	Unix    string `json:"unix"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
}

func (o *options) serve(ctx context.Context, s *host.Server, stdout io.Writer, log *slog.Logger) error {
	line := ready{PID: os.Getpid(), Version: version.Number, Unix: o.unix}
	failed := make(chan error, 2)
	loops := 0
	start := func(loop func() error) {
		loops++
		go func() { failed <- loop() }()
	}
	shutdown := func() error {
		drain := o.drain
		if errors.Is(context.Cause(ctx), errOrphan) {
			drain = min(drain, orphanDrain)
		}
		limited, stop := context.WithTimeout(context.Background(), drain)
		defer stop()
		ended := make(chan error, 1)
		go func() {
			err := s.Shutdown(limited)
			for range loops {
				err = errors.Join(err, <-failed)
			}
			ended <- err
		}()
		select {
		case err := <-ended:
			return err
		case <-time.After(drain + time.Second):
			return errors.New("some request did not end within a second of --drain")
		}
	}
	if o.unix != "" {
		l, err := listenUnix(o.unix)
		if err != nil {
			return err
		}
		start(func() error { return s.ServeUnix(l) })
	}
	if o.listen != "" {
		l, err := net.Listen("tcp", o.listen)
		if err != nil {
			return errors.Join(err, shutdown())
		}
		line.URL = "ws://" + l.Addr().String() + wire.Path
		if o.certFile != "" {
			line.URL = "wss://" + l.Addr().String() + wire.Path
			start(func() error { return s.ServeTLS(l, o.tls) })
		} else {
			start(func() error { return s.Serve(l) })
		}
	}
	if err := json.NewEncoder(stdout).Encode(line); err != nil {
		return errors.Join(err, shutdown())
	}
	log.Info("ready", "url", line.URL, "unix", line.Unix)
	select {
	case err := <-failed:
		loops--
		return errors.Join(err, shutdown())
	case <-ctx.Done():
	}
	log.Info("stopping")
	return shutdown()
}
