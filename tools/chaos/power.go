//go:build linux

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/kubernasium/kubernasium/tools/chaos/powerfs"
)

// A job is a program that power losses interrupt: how it starts and resumes, and its result.
type job struct {
	name   string
	begin  func(folder string) []string
	resume func(folder string) []string // nil if there is nothing to resume
	result func(folder string) ([]byte, error)
	kept   string // pattern of the names of files that must survive once they are synced
}

// power interrupts trainings and searches by repeated power losses.
func power(p *probe) {
	steps := p.pick(2048, 8192)
	train := job{
		name: "training", kept: "rl_model_*.safetensors",
		begin: func(folder string) []string { return trainArgs(folder, steps) },
		resume: func(folder string) []string {
			if saved, err := filepath.Glob(filepath.Join(trainFolder(folder), "rl_model_*.safetensors")); err != nil || len(saved) == 0 {
				return nil
			}
			return []string{"train", "--resume", trainFolder(folder), "--json"}
		},
		result: parameters,
	}
	study := func(folder string) string { return filepath.Join(folder, "tune", "ppo", "classic-CartPole-v1_1") }
	search := job{
		name: "search", kept: "journal.jsonl",
		begin: func(folder string) []string {
			return []string{"tune", "--algo", "ppo", "--env", "classic/CartPole-v1", "--n-trials", "6", "--reduction-factor", "2", "-n", fmt.Sprint(2 * steps),
				"--min-resource", "512", "--eval-episodes", "2", "--params", "n_envs:2", "--params", "n_steps:64", "--params", "net_arch:[4]", "--seed", "3", "-f", folder, "--json"}
		},
		resume: func(folder string) []string {
			if info, err := os.Stat(filepath.Join(study(folder), "journal.jsonl")); err != nil || info.Size() == 0 {
				return nil
			}
			return []string{"tune", "--resume", study(folder), "--json"}
		},
		result: func(folder string) ([]byte, error) { return os.ReadFile(filepath.Join(study(folder), "best.yml")) },
	}
	for _, j := range []job{train, search} {
		for _, loss := range []powerfs.Loss{powerfs.Strict, powerfs.Names} {
			if !p.lose(j, loss, p.pick(6, 40)) {
				return
			}
		}
	}
}

// lose runs a job through power losses. It reports whether the file system could be mounted.
func (p *probe) lose(j job, loss powerfs.Loss, most int) bool {
	what := fmt.Sprintf("%s, %s", j.name, map[powerfs.Loss]string{powerfs.Strict: "no unsynced name or data kept", powerfs.Names: "unsynced names kept"}[loss])
	at, rng := filepath.Join(p.dir, "power"), rand.New(rand.NewPCG(uint64(loss), 9))
	if p.failOn(os.MkdirAll(at, 0o755), what) {
		return false
	}
	whole, err := powerfs.Mount(at, "", 0)
	if err != nil {
		p.skipped = "needs root and /dev/fuse: " + err.Error()
		return false
	}
	err = p.run(nil, j.begin(at)...)
	var want []byte
	if err == nil {
		want, err = j.result(at)
	}
	changes := whole.Changes()
	if p.failOn(whole.Unmount(), what) || p.failOn(err, what+", undisturbed") {
		return true
	}
	left, losses, anew := "", 0, 0
	for {
		after := 0
		if losses < most {
			after = 1 + rng.IntN(max(8, 3*changes/most))
		}
		f, err := powerfs.Mount(at, left, after)
		if p.failOn(err, what) {
			return true
		}
		args := j.resume(at)
		if args == nil {
			anew++
			if err := empty(at); err != nil && !ended(f.Failed()) { // a user would remove a folder without a checkpoint by hand
				p.failOn(err, what)
			}
			args = j.begin(at)
		}
		err = p.run(f.Failed(), args...)
		killed := ended(f.Failed())
		if killed { // the program may have ended first, with an error
			err = nil
		}
		var got []byte
		if !killed && err == nil {
			got, err = j.result(at)
		}
		if p.failOn(unmount(f), what) || p.failOn(err, what+fmt.Sprintf(", after %d losses", losses)) {
			return true
		}
		if !killed {
			if !bytes.Equal(got, want) {
				p.lost++
				p.fail("%s: ends with another result than without losses", what)
			}
			break
		}
		losses++
		left = filepath.Join(p.dir, fmt.Sprintf("left-%s-%d-%d", j.name, loss, losses))
		if p.failOn(f.Image(left, loss), what) {
			return true
		}
		p.survived(what, left, f.Synced(j.kept))
	}
	p.figure("%s: %d losses among %d changes (%d before there was anything to resume), the undisturbed result", what, losses, changes, anew)
	return true
}

// ended reports whether c is closed.
func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// survived checks that the synced files exist.
func (p *probe) survived(what, left string, synced []string) {
	found := map[string]bool{}
	err := filepath.WalkDir(left, func(path string, _ os.DirEntry, err error) error {
		found[filepath.Base(path)] = true
		return err
	})
	p.failOn(err, what)
	for _, name := range synced {
		if !found[name] {
			p.lost++
			p.fail("%s: %s was synced, and is gone", what, name)
		}
	}
	p.readable(left)
}

// empty removes the contents of a folder.
func empty(dir string) error {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if err == nil {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	return err
}

// unmount waits until the kernel has released the files of a killed process.
func unmount(f *powerfs.FS) (err error) {
	for range 100 {
		if err = f.Unmount(); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}
