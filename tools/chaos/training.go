//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/kwok/freeport"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/server/faults"
)

// trainArgs returns the arguments of a small training that saves a checkpoint every 512 steps.
func trainArgs(folder string, steps int, more ...string) []string {
	return append([]string{"train", "--algo", "ppo", "--env", "k8s/GangWindow-v0", "--env-kwargs", "steps:20", "-f", folder,
		"--params", "n_envs:4", "--params", "n_steps:16", "--params", "batch_size:32", "--params", "n_epochs:2", "--eval-freq", "512",
		"--eval-episodes", "3", "--save-freq", "512", "--seed", "5", "-n", fmt.Sprint(steps), "--json"}, more...)
}

// trainFolder returns the log folder of such a training.
func trainFolder(folder string) string { return filepath.Join(folder, "ppo", "k8s-GangWindow-v0_1") }

// execute runs the trainer to its end.
func (p *probe) execute(args ...string) error { return p.executeUntil(p.ctx, args...) }

// executeUntil is execute that kills the trainer at the end of ctx.
func (p *probe) executeUntil(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, p.trainer, args...)
	var log tail
	cmd.Stderr = &log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("trainer %s: %w: %s", args[0], cmp.Or(context.Cause(ctx), err), log.String())
	}
	return nil
}

// parameters returns the parameters of a training's last model.
func parameters(folder string) ([]byte, error) {
	f, err := models.ReadFile(filepath.Join(trainFolder(folder), "k8s-GangWindow-v0.safetensors"))
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for _, tensor := range f.Tensors {
		if !strings.HasPrefix(tensor.Name, models.StatePrefix) {
			if err := json.NewEncoder(&text).Encode(tensor); err != nil {
				return nil, err
			}
		}
	}
	return text.Bytes(), nil
}

// same compares the parameters of a training with those of an undisturbed one.
func (p *probe) same(folder string, want []byte) {
	got, err := parameters(folder)
	if p.failOn(err, "the model") {
		return
	}
	if !bytes.Equal(got, want) {
		p.lost++
		p.fail("the training ends with other parameters than an undisturbed one")
	}
}

// undisturbed trains and returns the parameters.
func (p *probe) undisturbed(steps int) []byte {
	folder := filepath.Join(p.dir, "undisturbed")
	p.must(p.execute(trainArgs(folder, steps)...), "the undisturbed training")
	want, err := parameters(folder)
	p.must(err, "the undisturbed training")
	return want
}

// training trains over a connection that is cut, at a server that is killed.
func training(p *probe) {
	steps, cuts, kills := p.pick(8192, 32_768), int64(p.pick(100, 1000)), int64(p.pick(4, 20))
	want := p.undisturbed(steps)
	address, err := freeport.Address()
	p.must(err, "address")
	s := p.serveAt(address, "")
	if s == nil {
		return
	}
	killed := int64(0)
	proxy := &faults.Proxy{To: address, MostCuts: cuts, Bytes: [2]int64{5000, 15_000}} // a reply to make has 4 KB
	proxy.OnCut = func(n int64) {
		if s != nil && killed < kills && n >= (killed+1)*cuts/(kills+1) {
			killed++
			s.kill()
			s = p.serveAt(address, "")
		}
	}
	front, err := proxy.Start(1)
	p.must(err, "proxy")
	folder := filepath.Join(p.dir, "disturbed")
	begin := time.Now()
	p.failOn(p.execute(trainArgs(folder, steps, "--url", "ws://"+front)...), "the training")
	took := time.Since(begin)
	p.failOn(proxy.Close(), "proxy")
	p.same(folder, want)
	s.stop(0)
	if proxy.Cuts() < cuts || killed < kills {
		p.fail("only %d cuts and %d kills", proxy.Cuts(), killed)
	}
	p.figure("%d steps through %d cuts and %d kill -9 of the server in %.1f s: the undisturbed parameters", steps, proxy.Cuts(), killed, took.Seconds())
}

// trainerKilled kills a training repeatedly, and resumes it from its newest checkpoint.
func trainerKilled(p *probe) {
	steps, kills := p.pick(32_768, 131_072), p.pick(4, 20)
	begin := time.Now()
	want := p.undisturbed(steps)
	whole := time.Since(begin)
	folder, rng := filepath.Join(p.dir, "killed"), rand.New(rand.NewPCG(3, 4))
	args, killed, none := trainArgs(folder, steps), 0, 0
	for {
		after := time.Duration(1 << 62)
		if killed < kills { // a start takes about a tenth of a second, and all runs together half of the training
			after = 100*time.Millisecond + time.Duration(rng.Int64N(int64(whole)/int64(2*kills)+1))
		}
		ctx, cancel := context.WithTimeout(p.ctx, after)
		err := p.executeUntil(ctx, args...)
		over := ctx.Err() != nil // the trainer may just have ended by itself
		cancel()
		if p.ctx.Err() != nil {
			return
		}
		if !over {
			p.failOn(err, "the training")
			break
		}
		killed++
		args = []string{"train", "--resume", trainFolder(folder), "--json"}
		if saved, err := filepath.Glob(filepath.Join(trainFolder(folder), "rl_model_*.safetensors")); err != nil || len(saved) == 0 {
			none++
			_ = os.RemoveAll(folder) // it has no checkpoint, and starts again
			args = trainArgs(folder, steps)
		}
	}
	if killed < kills {
		p.fail("only %d kills", killed)
	}
	p.same(folder, want)
	left, err := filepath.Glob(filepath.Join(trainFolder(folder), ".*.tmp"))
	if p.failOn(err, "glob"); len(left) > 0 {
		p.fail("temporary files are left: %v", left)
	}
	p.figure("%d steps through %d kill -9 of the trainer (%d before a first checkpoint): the undisturbed parameters, 0 temporary files left", steps, killed, none)
}
