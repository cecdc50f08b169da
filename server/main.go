// Command server serves the environments of this module over the protocol kubernasium.v1,
// which PROTOCOL.md defines.
//
// Usage: go run ./server [flags]
//
// When ready, it prints one line of JSON on stdout: url, unix, pid and version. It logs to stderr.
// It stops on SIGTERM and SIGINT and, with --exit-with-stdin, at the end of stdin.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/kubernasium/kubernasium/registry"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	cmd := newCommand()
	cmd.SetIn(os.Stdin)
	cmd.SetOut(os.Stdout)
	cmd.SetErr(os.Stderr)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}
