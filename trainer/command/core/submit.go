package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
	"github.com/kubernasium/kubernasium/trainer/submit"
	"github.com/kubernasium/kubernasium/version"
)

// notSubmitted lists flags that the workload's learner does not get, or gets with another value.
var notSubmitted = []string{"submit", "dry-run", "json", "log-folder", "conf-file"}

// checkSubmit checks the flags beside --submit.
func checkSubmit(flags *pflag.FlagSet) error {
	if !flags.Changed("submit") {
		if flags.Changed("dry-run") {
			return errors.New("--dry-run prints the manifests of --submit: give both")
		}
		return nil
	}
	for name, why := range map[string]string{
		"url":           "the file says how many servers the training has",
		"resume":        "a workload resumes the checkpoint that its volume has",
		"resume-newest": "a workload does so",
	} {
		if flags.Changed(name) {
			return fmt.Errorf("--submit goes without --%s: %s", name, why)
		}
	}
	return nil
}

// submission is a workload and the training that it runs.
type submission struct {
	*submit.Workload
	training submit.Training
}

// readWorkload reads the file of --submit for the training that the flags describe.
func readWorkload(file string, flags *pflag.FlagSet, c *run.Config) (*submission, error) {
	s := &submission{training: submit.Training{Algo: c.Algo, Env: c.Env, Version: version.Number}}
	flags.Visit(func(f *pflag.Flag) {
		if !f.Changed || slices.Contains(notSubmitted, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			s.training.Args = append(s.training.Args, "--"+f.Name+"="+v)
		}
	})
	if conf := flags.Lookup("conf-file"); conf.Changed {
		name := conf.Value.String()
		text, err := os.ReadFile(name)
		if err == nil { // otherwise conf is a published source
			s.training.Files = map[string][]byte{filepath.Base(name): text}
			name = path.Join(submit.FilesPath, filepath.Base(name))
		}
		s.training.Args = append(s.training.Args, "--conf-file="+name)
	}
	var err error
	if s.Workload, err = submit.Read(file, s.training); err != nil {
		return nil, err
	}
	if flags.Changed("log-folder") && s.Kind != submit.KindLocal {
		return nil, errors.New("--submit goes without --log-folder, except for kind: local: logs are on the workload's volume")
	}
	return s, nil
}

// checkOptions returns the error with which the training would reject the options of its environments. A file that this
// machine lacks is none: the workload's pods may have it.
func checkOptions(spec *envs.Spec, c *run.Config) error {
	for _, opts := range []map[string]any{c.EnvKwargs, play.Validation(spec, c.EnvKwargs, c.EvalEnvKwargs)} {
		if _, err := spec.Open(opts); errors.Is(err, envs.ErrInvalidOption) {
			return fmt.Errorf("make %s: %w", spec.ID, err)
		}
	}
	return nil
}

// submit runs the workload here or in a cluster, or only prints it.
func (s *submission) submit(cmd *cobra.Command, spec *envs.Spec, c *run.Config, dryRun bool) error {
	if err := checkOptions(spec, c); err != nil {
		return err
	}
	if n := c.Params.NEnvs; n < int(*s.Servers) {
		return fmt.Errorf("servers: %d, but n_envs is %d: want at least one environment for each", *s.Servers, n)
	}
	if s.Kind == submit.KindLocal || dryRun {
		s.Kind = cmp.Or(s.Kind, submit.KindJobSet)
		m, err := submit.Build(s.Workload, s.training)
		if err != nil {
			return err
		}
		if dryRun {
			list, err := m.List()
			if err != nil {
				return err
			}
			return cli.Print(cmd, list, m.WriteYAML)
		}
		return s.local(cmd, c, m)
	}
	ctx := cmd.Context()
	cluster, err := submit.Connect(s.Context)
	if err != nil {
		return err
	}
	notes, err := cluster.Complete(ctx, s.Workload)
	if err != nil {
		return err
	}
	for _, n := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), n)
	}
	m, err := submit.Build(s.Workload, s.training)
	if err != nil {
		return err
	}
	applied, err := cluster.Apply(ctx, s.Workload, m)
	if err != nil {
		return err
	}
	return cli.Print(cmd, applied, applied.WriteText)
}

// local runs the workload as processes.
func (s *submission) local(cmd *cobra.Command, c *run.Config, m *submit.Manifests) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if cli.WantJSON(cmd) {
		out = cmd.ErrOrStderr()
	}
	folder := filepath.Join(c.LogFolder, s.Name)
	err = submit.Local{Program: []string{program}, Folder: c.LogFolder, Out: out}.Run(cmd.Context(), m)
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: the same command resumes from the newest checkpoint in %s", cli.ErrInterrupted, folder)
	} else if err != nil {
		return err
	}
	return cli.Print(cmd, map[string]string{"kind": submit.KindLocal, "name": s.Name, "folder": folder, "state": "Complete"}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "logs and models are in %s\n", folder)
		return err
	})
}
