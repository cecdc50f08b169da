// Command vpa-upstream runs the updater and the admission controller of k8s.io/autoscaler/vertical-pod-autoscaler
// beside our recommender. It uses upstream's packages unchanged. It is a separate module because it needs a newer
// Kubernetes client than the control plane.
//
// Upstream's own programs run on a timer, listen on every address and expect their webhook behind a Service. Here
// both can also run in lock-step with the program that starts them. The webhook listens on one address with its
// own certificate and is registered by URL, so that a control plane without a service network can call it. In a
// cluster, run upstream's images instead.
//
//	vpa-upstream updater --kubeconfig FILE --updater-interval 10s
//	vpa-upstream admission-controller --kubeconfig FILE --listen 127.0.0.1:0
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
)

var commands = map[string]func(context.Context, []string) error{
	"updater":              runUpdater,
	"admission-controller": runAdmission,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	klog.Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vpa-upstream:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("want a command: updater or admission-controller, with --help for its flags")
	}
	return commands[args[0]](ctx, args[1:])
}
