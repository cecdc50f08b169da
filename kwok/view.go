package kwok

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// A key names an object of an environment.
type key struct {
	kind, name string
}

func (k key) String() string { return k.kind + " " + k.name }

// Kinds of objects.
const (
	kindPod  = "pod"
	kindNode = "node"
)

// version is a resource version. Kubernetes permits comparing versions of the same kind of object.
type version uint64

// seen is an object as a watch reported it.
type seen struct {
	record  record
	version version
}

// A view holds the objects of one environment as the watches reported them, and their expected records. The
// watches write to it while the Cluster waits.
type view struct {
	mu      sync.Mutex
	want    map[key]record  // a nil record means that the object should not exist
	least   map[key]version // version of the last write
	have    map[key]seen
	differ  map[key]struct{}
	failing map[string]error // by kind: why its watch fails; no entry while it works
	changed chan struct{}    // closed at each change
}

func newView() *view {
	return &view{
		want: map[key]record{}, least: map[key]version{}, have: map[key]seen{}, differ: map[key]struct{}{},
		failing: map[string]error{}, changed: make(chan struct{}),
	}
}

// expect sets the expected record of an object; nil means that it should not exist.
func (v *view) expect(k key, r record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.want[k] = r
	v.compare(k)
}

// written records the version of a write, which the view must reach.
func (v *view) written(k key, at version) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.least[k] = max(v.least[k], at)
	v.compare(k)
}

// forget expects no objects.
func (v *view) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.want)
	clear(v.least)
	clear(v.differ)
	for k := range v.have {
		v.compare(k)
	}
}

// compare updates differ for an object. The caller holds mu.
func (v *view) compare(k key) {
	have, there := v.have[k]
	want := v.want[k]
	if there && have.record == want && have.version >= v.least[k] || !there && want == nil {
		delete(v.differ, k)
	} else {
		v.differ[k] = struct{}{}
	}
}

// changes wakes all waiters. The caller holds mu.
func (v *view) changes() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// show records an object that a watch reported.
func (v *view) show(k key, s seen) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.have[k] = s
	v.compare(k)
	v.changes()
}

// gone records the deletion of an object.
func (v *view) gone(k key) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.have, k)
	v.compare(k)
	v.changes()
}

// replace records all objects of a kind from a list.
func (v *view) replace(kind string, all map[key]seen) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for k := range v.have {
		if _, ok := all[k]; k.kind == kind && !ok {
			delete(v.have, k)
			v.compare(k)
		}
	}
	for k, s := range all {
		v.have[k] = s
		v.compare(k)
	}
	v.changes()
}

// watching records that the watch of a kind works, or why it does not.
func (v *view) watching(kind string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		delete(v.failing, kind)
	} else {
		v.failing[kind] = err
	}
	v.changes()
}

// present reports whether the view has any object.
func (v *view) present() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.have) > 0
}

// synced reports whether all objects match their expected records. If not, it returns a channel that the next
// change closes. It returns an error if there is a pod that the environment did not create.
func (v *view) synced() (ok bool, changed <-chan struct{}, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for k := range v.differ {
		if _, ours := v.want[k]; !ours && len(v.want) > 0 {
			return false, nil, fmt.Errorf("%w: %s is not of this environment: %+v", ErrDiverged, k, v.have[k].record)
		}
	}
	return len(v.differ) == 0, v.changed, nil
}

// wait waits until the view is synced. If no further object has matched for patience, it returns an error that
// prints the differences, or one that wraps [cluster.ErrUnavailable] if the API server cannot be watched.
func (v *view) wait(ctx context.Context, patience time.Duration) error {
	return v.until(ctx, patience, v.synced)
}

// listed waits until every watch has listed its objects.
func (v *view) listed(ctx context.Context, patience time.Duration) error {
	return v.until(ctx, patience, func() (bool, <-chan struct{}, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.failing) == 0, v.changed, nil
	})
}

// until waits until met returns true or an error. When met returns false, it also returns a channel that the
// next change closes.
func (v *view) until(ctx context.Context, patience time.Duration, met func() (bool, <-chan struct{}, error)) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var blind <-chan time.Time // fires when the watches have failed for too long
	fewest := math.MaxInt
	for {
		ok, changed, err := met()
		if ok || err != nil {
			return err
		}
		n, down := v.state()
		if n < fewest { // progress on a slow machine
			fewest = n
			timer.Reset(patience)
		}
		switch {
		case !down:
			blind = nil
		case blind == nil:
			blind = time.After(unwatchedLimit)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("kwok: wait for the API server's objects: %w", ctx.Err())
		case <-blind:
			return v.difference(patience)
		case <-timer.C:
			return v.difference(patience)
		}
	}
}

// unwatchedLimit is how long the watches may fail before a wait ends.
const unwatchedLimit = 3 * time.Second

// state returns the number of objects that differ from their predictions, and whether a watch fails.
func (v *view) state() (differing int, down bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.differ), len(v.failing) > 0
}

// maxPrinted limits the objects that an error prints.
const maxPrinted = 5

// difference returns an error with the differing objects, or with the reason why a watch fails.
func (v *view) difference(patience time.Duration) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.failing) > 0 {
		return wrapAPI("watch", errors.Join(slices.Collect(maps.Values(v.failing))...))
	}
	keys := slices.SortedFunc(maps.Keys(v.differ), func(a, b key) int { return strings.Compare(a.String(), b.String()) })
	var b strings.Builder
	for i, k := range keys {
		if i == maxPrinted {
			fmt.Fprintf(&b, "\n… and %d more", len(keys)-i)
			break
		}
		have, there := v.have[k]
		fmt.Fprintf(&b, "\n%s\n  predicted %s\n  found     %s", k, text(v.want[k]), text(have.record))
		if there && have.record == v.want[k] {
			fmt.Fprintf(&b, " at version %d, want at least %d", have.version, v.least[k])
		}
	}
	return fmt.Errorf("%w, and still did after %v:%s", ErrDiverged, patience, &b)
}

func text(r record) string {
	if r == nil {
		return "absent"
	}
	return fmt.Sprintf("%+v", r)
}
