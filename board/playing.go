package board

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// MaxRate bounds the steps per second of an episode.
const MaxRate = 20000

const (
	playTick = 50 * time.Millisecond // between two batches of steps, and the most time for one
)

var _ source = (*episode)(nil)

// setRate sets the steps per second of the episode. The caller holds mu.
func (ep *episode) setRate(rate float64) error {
	if !(rate >= 0 && rate <= MaxRate) {
		return fmt.Errorf("steps_per_s is %v, want 0 to %d", rate, MaxRate)
	}
	ep.rate = rate
	select {
	case ep.kick <- struct{}{}:
	default: // a signal is already pending
	}
	return nil
}

// play answers POST /api/episodes/{id}/play: the episode plays while somebody follows it.
func (s *Server) play(r *http.Request) (any, error) {
	var ask struct {
		Rate float64 `json:"steps_per_s"`
	}
	if err := decode(r, &ask); err != nil {
		return nil, err
	}
	return s.change(r, func(ep *episode) error { return ep.setRate(ask.Rate) })
}

// change lets a request change its episode, and shows the result to viewers. It calls do with ep.mu locked.
func (s *Server) change(r *http.Request, do func(ep *episode) error) (any, error) {
	ep, err := s.episodes.find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if err := do(ep); err != nil {
		return nil, err
	}
	info := ep.describe()
	ep.show(info)
	s.hub.changed("episode:" + info.ID)
	return info, nil
}

// show sets the state that viewers see.
func (ep *episode) show(info *EpisodeInfo) {
	ep.shown.Lock()
	defer ep.shown.Unlock()
	ep.shown.info = info
	ep.shown.version++
}

// follow implements [source]: it plays the episode at its rate.
func (ep *episode) follow(ctx context.Context, changed func()) {
	owed, last := 0.0, time.Now()
	for {
		playing := ep.advance(ctx, &owed)
		changed()
		if ctx.Err() != nil {
			return
		}
		var tick <-chan time.Time // none while it is paused
		if playing {
			tick = time.After(playTick)
		}
		select {
		case <-ctx.Done():
			return
		case <-ep.kick:
			owed, last = 0, time.Now()
		case <-tick:
			now := time.Now()
			ep.mu.Lock()
			owed += ep.rate * now.Sub(last).Seconds()
			ep.mu.Unlock()
			last = now
		}
	}
}

// advance plays the steps that are due, for a tick at most, and shows the new state. It reports whether the episode
// continues.
func (ep *episode) advance(ctx context.Context, owed *float64) bool {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	var failed error
	for end := time.Now().Add(playTick); *owed >= 1 && ep.done() == "" && failed == nil && time.Now().Before(end); *owed-- {
		m, err := ep.choose()
		if err == nil {
			err = ep.play(ctx, m)
		}
		failed = err
	}
	*owed = min(*owed, math.Max(1, ep.rate*playTick.Seconds())) // a slow environment does not catch up
	if ep.done() != "" || failed != nil {
		ep.rate = 0
	}
	info := ep.describe()
	if failed != nil && ctx.Err() == nil {
		info.Error = failed.Error()
	}
	ep.show(info)
	return ep.rate > 0
}

// episodeSeen records which part of an episode a viewer has.
type episodeSeen struct{ version, returns int }

// EpisodeUpdate holds the changes of an episode: the returns from a step on. Nodes are null if the viewer has them.
type EpisodeUpdate struct {
	EpisodeInfo
	From int `json:"returns_from"`
}

// update implements [source].
func (ep *episode) update(seen any) (data, now any, skipped int) {
	ep.shown.Lock()
	info, version := ep.shown.info, ep.shown.version
	ep.shown.Unlock()
	before, again := seen.(episodeSeen)
	if info == nil || version == before.version {
		return nil, seen, 0
	}
	n := &EpisodeUpdate{EpisodeInfo: *info}
	if again && before.returns <= len(info.Returns) {
		n.From, n.Returns, n.Nodes = before.returns, info.Returns[before.returns:], nil
	}
	return n, episodeSeen{version, len(info.Returns)}, skippedSince(before.version, version)
}

// EpisodeHead identifies an episode.
type EpisodeHead struct {
	ID     string `json:"id"`
	Env    string `json:"env"`
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
}

// list returns the episodes kept, the newest first.
func (e *episodes) list() []EpisodeHead {
	e.mu.Lock()
	defer e.mu.Unlock()
	heads := []EpisodeHead{}
	for id := e.next; id > 0; id-- {
		for _, ep := range e.all {
			if ep.info.ID == strconv.Itoa(id) {
				heads = append(heads, EpisodeHead{ep.info.ID, ep.info.Env, ep.info.Policy, ep.info.Seed})
			}
		}
	}
	return heads
}
