// Command stresspod is the program of a stress pod. It registers at a utilisation server, and uses the CPU and
// memory of the server's targets with stress-ng, step by step.
//
//	stresspod --server http://utilization-server.vpa.svc
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubernasium/kubernasium/kwok/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "stresspod:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	s := &load.Stress{Output: os.Stderr}
	c := load.PodConfig{Load: s}
	f := flag.NewFlagSet("stresspod", flag.ContinueOnError)
	f.StringVar(&c.Server, "server", "http://utilization-server.vpa.svc", "URL of the utilisation server")
	f.StringVar(&c.Hostname, "hostname", name, "name under which it registers")
	f.StringVar(&c.Listen, "listen", "127.0.0.1:0", "address at which it accepts targets; in a cluster :80")
	f.BoolVar(&c.NamePort, "name-port", false, "let the server call back at this process's address and port instead of the name")
	f.StringVar(&s.Path, "stress-ng", "stress-ng", "path of stress-ng")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	return errors.Join(load.RunPod(ctx, c), s.Close())
}
