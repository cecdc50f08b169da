package profile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/kwok/procgroup"
)

// Command loads each container with a separate process, all at the same time.
type Command struct {
	text     string
	template *template.Template
	duration time.Duration
	timeout  time.Duration
}

// commandFields are the fields of a command's template.
type commandFields struct {
	Container
	Duration time.Duration // of the load, for example 5m0s
	Seconds  float64       // the same duration in seconds
}

// NewCommand returns a load that runs a command line in sh. The command line is a text/template with the fields
// of [Container], .Duration and .Seconds. The command decides how long to load; it is killed after the timeout.
// It must print one JSON object and nothing else on standard output: {"rps": NUMBER, "rt50": SECONDS, "rt99":
// SECONDS}; the latter two are optional.
func NewCommand(text string, duration, timeout time.Duration) (*Command, error) {
	t, err := template.New("load").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("profile: load command: %w", err)
	}
	if duration <= 0 || timeout < duration {
		return nil, fmt.Errorf("profile: load of %v with a timeout of %v, want more than 0 and at least that", duration, timeout)
	}
	c := &Command{text, t, duration, timeout}
	_, err = c.line(Container{})
	return c, err
}

// Setting implements [Load].
func (c *Command) Setting() string { return fmt.Sprintf("command for %v: %s", c.duration, c.text) }

func (c *Command) line(of Container) (string, error) {
	var b strings.Builder
	if err := c.template.Execute(&b, commandFields{of, c.duration, c.duration.Seconds()}); err != nil {
		return "", fmt.Errorf("profile: load command: %w", err)
	}
	return b.String(), nil
}

// Measure implements [Load].
func (c *Command) Measure(ctx context.Context, _ lra.Counts, _ int, containers []Container) ([]Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("it took longer than %v", c.timeout))
	defer cancel()
	answers := make([]Answer, len(containers))
	group, ctx := errgroup.WithContext(ctx)
	for i, of := range containers {
		group.Go(func() error {
			var err error
			if answers[i], err = c.one(ctx, of); err != nil {
				return fmt.Errorf("load of pod %s: %w", of.Pod, err)
			}
			return nil
		})
	}
	return answers, group.Wait()
}

// one loads one container.
func (c *Command) one(ctx context.Context, of Container) (Answer, error) {
	line, err := c.line(of)
	if err != nil {
		return Answer{}, err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	procgroup.Lead(cmd, false) // to kill also the shell's children
	cmd.Cancel = func() error { return procgroup.Kill(cmd) }
	cmd.WaitDelay = procgroup.KillDelay
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return Answer{}, fmt.Errorf("%w: %s", errors.Join(err, context.Cause(ctx)), procgroup.LastLine(stderr.String()))
	}
	return parseAnswer(stdout.Bytes())
}

// parseAnswer reads a command's output.
func parseAnswer(text []byte) (Answer, error) {
	var a struct {
		RPS  *float64 `json:"rps"`
		RT50 float64  `json:"rt50"`
		RT99 float64  `json:"rt99"`
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return Answer{}, fmt.Errorf(`printed %q, want a JSON object such as {"rps": 3.9, "rt50": 0.9, "rt99": 2.4}: %w`, shorten(string(text)), err)
	}
	if a.RPS == nil || !(*a.RPS > 0) || math.IsInf(*a.RPS, 0) || !(a.RT50 >= 0 && a.RT99 >= 0) {
		return Answer{}, fmt.Errorf("printed %q, want rps above 0, and rt50 and rt99 not below", shorten(string(text)))
	}
	return Answer{*a.RPS, a.RT50, a.RT99}, nil
}

// shorten limits the length of quotations in messages.
func shorten(text string) string { return text[:min(len(text), 200)] }
