package plugin

import (
	"context"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/kwok/schedulerconfig"
)

// reloader reopens the model when its file has changed. If the file's checksum or contents are wrong, it keeps
// the current model.
type reloader struct {
	args  live.Args
	seen  fs.FileInfo
	fresh atomic.Pointer[live.Policy] // the new model
}

// newReloader checks the file until ctx ends.
func newReloader(ctx context.Context, args schedulerconfig.Args) (*reloader, error) {
	r := &reloader{args: args.Args}
	if r.args.Model == "" {
		return r, nil
	}
	var err error
	if r.seen, err = os.Stat(r.args.Model); err != nil {
		return nil, err
	}
	go func() {
		ticks := time.NewTicker(args.ReloadEvery.Duration)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				r.check(klog.FromContext(ctx))
			}
		}
	}()
	return r, nil
}

// check opens the model if its file has changed.
func (r *reloader) check(log klog.Logger) {
	now, err := os.Stat(r.args.Model)
	if err == nil && os.SameFile(r.seen, now) && r.seen.ModTime().Equal(now.ModTime()) && r.seen.Size() == now.Size() {
		return
	}
	var p *live.Policy
	if err == nil {
		r.seen = now
		p, err = live.Open(r.args, 1)
	}
	if err != nil {
		reloads.WithLabelValues("error").Inc()
		log.Error(err, "the model stays as it was", "file", r.args.Model)
		return
	}
	reloads.WithLabelValues("ok").Inc()
	log.Info("model reloaded", "file", r.args.Model, "policy", p.Name())
	if old := r.fresh.Swap(p); old != nil {
		_ = old.Close() // it was never used
	}
}

// take returns the new model, or nil.
func (r *reloader) take() *live.Policy {
	if r == nil || r.fresh.Load() == nil {
		return nil
	}
	return r.fresh.Swap(nil)
}
