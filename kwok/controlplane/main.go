// Command controlplane runs a Kubernetes control plane with simulated nodes in one process:
// etcd, kube-apiserver, kube-scheduler, kube-controller-manager and KWOK's controllers.
//
// Usage: controlplane [flags]
//
// When ready, it prints one line of JSON on stdout: url, kubeconfig, data_dir, pid,
// components, clock, versions and seconds. It logs to stderr. It stops on SIGTERM and SIGINT,
// and, with --exit-with-stdin, at the end of stdin; a second signal ends it at once.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	cmd := newCommand()
	cmd.SetIn(os.Stdin)
	cmd.SetOut(os.Stdout)
	cmd.SetErr(os.Stderr)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}
