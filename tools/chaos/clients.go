//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	client "github.com/kubernasium/kubernasium/clients/go"
)

// runRole runs the given role in a process that chaos has started.
func runRole(role string, args []string) {
	var err error
	switch role {
	case "client":
		err = steps(args[0])
	case "parent":
		err = parent(args[0], args[1])
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos "+role+":", err)
		os.Exit(1)
	}
}

// steps plays until the process is killed.
func steps(url string) error {
	v, err := client.Dial(context.Background(), url, witnessEnv, witnessEnvs, client.Options{})
	if err != nil {
		return err
	}
	fmt.Println("playing")
	_, err = follow(v, func() bool { return true }, func(time.Duration) {})
	return err
}

// parent starts a server that ends with it, and waits to be killed.
func parent(program, socket string) error {
	cmd := exec.Command(program, "--listen", "", "--unix", socket, "--exit-with-stdin")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it is ready
		return err
	}
	fmt.Println(cmd.Process.Pid, socket)
	return cmd.Wait()
}

// clientCommand returns the command that runs this program in a role.
func clientCommand(role string, args ...string) *exec.Cmd {
	return exec.Command("/proc/self/exe", append([]string{"--role", role}, args...)...)
}

// clientKilled kills clients in the middle of a step. Their sessions end with their leases.
func clientKilled(p *probe) {
	const lease = 2 * time.Second
	s := p.serve("", "--lease", lease.String())
	w := p.watch(s.ws)
	kills := p.pick(10, 50)
	for range kills {
		c := clientCommand("client", s.ws)
		out, err := c.StdoutPipe()
		if p.failOn(err, "client") || p.failOn(c.Start(), "client") {
			break
		}
		_, err = out.Read(make([]byte, 1)) // it has started to play
		p.failOn(err, "client")
		time.Sleep(20 * time.Millisecond)
		_ = c.Process.Kill() // it never ends by itself
		_ = c.Wait()
	}
	begin := time.Now()
	within(patience, func() bool { return s.metric("kubernasium_sessions") == 1 })
	p.figure("%d kill -9 of clients within a step; %.1f s after the last their sessions are gone (leases of %v)", kills, time.Since(begin).Seconds(), lease)
	w.join(p)
	s.stop(lease)
}
