//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kubernasium/kubernasium/models"
)

// diskFull trains on a file system that is too small, then enlarges it and resumes.
func diskFull(p *probe) {
	steps := p.pick(16_384, 32_768)
	want := p.undisturbed(steps)
	at := filepath.Join(p.dir, "small")
	p.must(os.Mkdir(at, 0o755), "mkdir")
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, "size=512k"); err != nil {
		p.skipped = "needs root, to mount a tmpfs: " + err.Error()
		return
	}
	defer func() { p.failOn(syscall.Unmount(at, 0), "unmount") }()
	err := p.execute(trainArgs(at, steps)...)
	if err == nil || !strings.Contains(err.Error(), "no space left on device") {
		p.fail("a training on a full disk ends with %v, want one that names the reason", err)
		return
	}
	good := p.readable(at)
	if good == 0 {
		p.fail("no checkpoint was written before the disk was full")
		return
	}
	p.must(syscall.Mount("tmpfs", at, "tmpfs", syscall.MS_REMOUNT, "size=64m"), "remount")
	if !p.failOn(p.execute("train", "--resume", trainFolder(at), "--json"), "resume") {
		p.same(at, want)
	}
	p.figure("a training on 512 KB ends and says that no space is left; its %d models and checkpoints can be read; with more space it resumes to the undisturbed parameters", good)
}

// readable reads all models below a folder. The row fails if it cannot read one.
func (p *probe) readable(dir string) (n int) {
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".safetensors") {
			_, err = models.ReadFile(path)
			n++
		}
		return err
	})
	p.failOn(err, "models")
	return n
}

// run runs the trainer until it ends, and kills it when stop is closed.
func (p *probe) run(stop <-chan struct{}, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(p.ctx, 10*time.Minute, errors.New("ten minutes have passed"))
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	})
	err := p.executeUntil(ctx, args...)
	cancel()
	watch.Wait()
	return err
}
