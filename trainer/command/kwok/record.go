package kwok

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/trace"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// recordFlags holds the flags of `kwok record`.
type recordFlags struct {
	out       string
	proceed   bool
	anonymize bool
	last      time.Duration
	server    kwok.Options
}

// recorded is the JSON of `kwok record`.
type recorded struct {
	File   string        `json:"file"`
	Events int           `json:"events"`
	Bytes  int64         `json:"bytes"`
	Length time.Duration `json:"length_ns"`
}

// saltBytes is the length of a salt, and saltSuffix the suffix of the recording's name that names its salt
// file.
const (
	saltBytes  = 16
	saltSuffix = ".salt"
)

func newKwokRecord() *cobra.Command {
	var f recordFlags
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Record a cluster: its nodes, and the creation, binding and end of its pods",
		Long: `Record a cluster: its nodes, and the creation, binding and end of its pods, until Ctrl-C. It only lists
and watches nodes, pods, priority classes, persistent volumes and their claims. docs/cluster-trace.md describes the
file, which ` + "`trainer kwok replay`" + ` replays, and which k8s/PodBalance-v0 and k8s/GPUPodScheduling-v0 play by
their option trace.

A recorder that is killed loses at most the last 5 seconds. With --append a recording goes on, with a gap. With
--anonymize names and labels are salted hashes; the salt stands in FILE.salt, and whoever has it can try
names.`,
		Example: `  trainer kwok record --out cluster.jsonl.zst
  trainer kwok record --out cluster.jsonl.zst --append
  trainer kwok record --out shared.jsonl.zst --anonymize --for 24h --kubeconfig FILE`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.out == "" {
				return errors.New("no file: give --out")
			}
			r, err := f.record(cmd)
			if err != nil {
				return err
			}
			return cli.Printf(cmd, r, "%s: %d events in %v, %.1f MB\n", r.File, r.Events, r.Length.Round(time.Second), float64(r.Bytes)/1e6)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "out", "o", "", "file to write, *.jsonl.zst, *.jsonl.gz or *.jsonl")
	flags.BoolVar(&f.proceed, "append", false, "continue the recording in the file, if there is one")
	flags.BoolVar(&f.anonymize, "anonymize", false, "hide names and labels")
	flags.DurationVar(&f.last, "for", 0, "duration of the recording; 0: until Ctrl-C")
	flags.StringVar(&f.server.Kubeconfig, "kubeconfig", "", "how to reach the cluster (default: that of "+kwok.KubeconfigVariable+", or in a pod its service account)")
	return cmd
}

// record records until the command is interrupted or its duration has passed.
func (f *recordFlags) record(cmd *cobra.Command) (recorded, error) {
	f.server.AllowRealNodes = true // it changes nothing
	client, err := kwok.Connect(cmd.Context(), f.server)
	if err != nil {
		return recorded{}, err
	}
	w, o, err := f.open()
	if err != nil {
		return recorded{}, err
	}
	o.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	o.Synced = func() {
		fmt.Fprintf(cmd.ErrOrStderr(), "recording to %s; Ctrl-C ends it\n", f.out)
	}
	ctx := cmd.Context()
	if f.last > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.last)
		defer cancel()
	}
	length := func() time.Duration { return time.Since(o.Start) }
	err = errors.Join(trace.Record(ctx, client, w, o), w.Close(length()))
	r := recorded{File: f.out, Events: w.Events(), Length: length()}
	if info, bad := os.Stat(f.out); bad == nil {
		r.Bytes = info.Size()
	}
	return r, err
}

// open begins or continues the recording.
func (f *recordFlags) open() (*clustertrace.Writer, trace.Options, error) {
	var o trace.Options
	if _, err := os.Stat(f.out); !f.proceed || errors.Is(err, fs.ErrNotExist) {
		if f.anonymize {
			salt, err := newSalt(f.out + saltSuffix)
			if err != nil {
				return nil, o, err
			}
			o.Salt = salt
		}
		o.Start = time.Now()
		w, err := clustertrace.Create(f.out, clustertrace.Header{Start: o.Start, Source: "trainer kwok record", Anonymized: f.anonymize})
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%w; --append continues it", err)
		}
		return w, o, err
	}
	w, before, err := clustertrace.Append(f.out)
	if err != nil {
		return nil, o, err
	}
	o.Start, o.Before = before.Header.Start, before
	if before.Header.Anonymized {
		if o.Salt, err = readSalt(f.out + saltSuffix); err != nil {
			return nil, o, errors.Join(err, w.Close(0))
		}
	} else if f.anonymize {
		return nil, o, errors.Join(fmt.Errorf("%s is not anonymized, and cannot become so", f.out), w.Close(0))
	}
	return w, o, nil
}

// newSalt writes a random salt that only its owner can read. It keeps an existing one, so that recordings may
// share it.
func newSalt(path string) ([]byte, error) {
	if salt, err := readSalt(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return salt, err
	}
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // it never fails
	return salt, os.WriteFile(path, []byte(hex.EncodeToString(salt)+"\n"), 0o600)
}

func readSalt(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("salt of names: %w", err)
	}
	salt, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err == nil && len(salt) < saltBytes {
		err = fmt.Errorf("%d bytes, want %d or more", len(salt), saltBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("salt of names: %s: %w", path, err)
	}
	return salt, nil
}
