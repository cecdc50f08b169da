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

// reloader opens the model again when its file has changed. A file whose checksum or contents are wrong
// leaves the model as it is.
type reloader struct {
	args  live.Args
	seen  fs.FileInfo
	fresh atomic.Pointer[live.Policy] // to be taken
}

// newReloader looks at the file until ctx ends.
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
				r.look(klog.FromContext(ctx))
			}
		}
	}()
	return r, nil
}

// look opens the model if its file is another than before.
func (r *reloader) look(log klog.Logger) {
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
		_ = old.Close() // nobody has used it
	}
}

// take returns the model that has been opened again, or nil.
func (r *reloader) take() *live.Policy {
	if r == nil || r.fresh.Load() == nil {
		return nil
	}
	return r.fresh.Swap(nil)
}
