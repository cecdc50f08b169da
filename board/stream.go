package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"
)

// Bounds of the stream.
const (
	maxTopics  = 64
	streamPace = 50 * time.Millisecond // least time between two messages to a viewer
	heartbeat  = 15 * time.Second      // tells proxies and viewers that the stream is alive
	stuckAfter = 10 * time.Second      // a viewer that reads nothing for so long is disconnected
)

// A source is a state that viewers follow.
type source interface {
	// follow calls changed, which never blocks, after each change until ctx ends. It runs only while there are viewers.
	follow(ctx context.Context, changed func())

	// update returns the data that a viewer lacks, given the version that it has seen, nil at first, and the version
	// that it has seen afterwards. skipped counts the states between that the viewer missed. Without changes, data is
	// nil.
	update(seen any) (data, now any, skipped int)
}

// A topic is a source with its viewers.
type topic struct {
	source  source
	stop    context.CancelFunc
	viewers map[chan struct{}]bool
}

// hub holds the topics that have viewers.
type hub struct {
	find  func(name string) (source, error)
	every time.Duration // interval of retries for missing topics

	mu     sync.Mutex
	topics map[string]*topic
	ended  bool
	done   chan struct{}  // closed when streams must end
	wait   sync.WaitGroup // goroutines of follow
}

func newHub(find func(name string) (source, error), every time.Duration) *hub {
	return &hub{find: find, every: every, topics: map[string]*topic{}, done: make(chan struct{})}
}

// join adds a viewer to a topic. wake receives a signal after each change, unless its buffer is full.
func (h *hub) join(name string, wake chan struct{}) (source, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return nil, &httpError{http.StatusServiceUnavailable, "the page ends"}
	}
	if t := h.topics[name]; t != nil {
		t.viewers[wake] = true
		return t.source, nil
	}
	s, err := h.find(name)
	switch {
	case errors.Is(err, errNoTopic):
		return nil, err
	case err != nil:
		s = &awaited{find: func() (source, error) { return h.find(name) }, every: h.every, reason: err.Error()}
	}
	ctx, stop := context.WithCancel(context.Background())
	h.topics[name] = &topic{source: s, stop: stop, viewers: map[chan struct{}]bool{wake: true}}
	h.wait.Go(func() { s.follow(ctx, func() { h.changed(name) }) })
	return s, nil
}

// leave removes a viewer from a topic, and ends the topic after its last viewer.
func (h *hub) leave(name string, wake chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[name]
	if t == nil {
		return
	}
	if delete(t.viewers, wake); len(t.viewers) == 0 {
		t.stop()
		delete(h.topics, name)
	}
}

// changed wakes the viewers of a topic. It never blocks.
func (h *hub) changed(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[name]; t != nil {
		for wake := range t.viewers {
			select {
			case wake <- struct{}{}:
			default: // a signal is already pending
			}
		}
	}
}

// close ends all streams and waits for the goroutines of follow.
func (h *hub) close() {
	h.mu.Lock()
	if !h.ended {
		h.ended = true
		close(h.done)
	}
	for _, t := range h.topics {
		t.stop()
	}
	h.mu.Unlock()
	h.wait.Wait()
}

// Message is a message of the stream.
type Message struct {
	Topic   string `json:"topic"`
	Skipped int    `json:"skipped"` // states that this viewer missed
	Data    any    `json:"data"`
}

// stream answers GET /api/stream?topic=A&topic=B with server-sent events. Each viewer gets the newest state when it is
// ready to receive.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	names := r.URL.Query()["topic"]
	if len(names) == 0 || len(names) > maxTopics {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": fmt.Sprintf("%d topics, want 1 to %d", len(names), maxTopics)})
		return
	}
	wake := make(chan struct{}, 1)
	sources, seen := make([]source, len(names)), make([]any, len(names))
	for i, name := range names {
		var err error
		if sources[i], err = s.hub.join(name, wake); err != nil {
			sources[i] = failure(err.Error())
			continue
		}
		defer s.hub.leave(name, wake)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // no limit for streams; recorders in tests support no deadlines
	ticks := time.NewTicker(heartbeat)
	defer ticks.Stop()
	text := ": hello\n\n"
	for {
		for i, src := range sources {
			data, now, skipped := src.update(seen[i])
			if data == nil {
				continue
			}
			seen[i] = now
			message, err := json.Marshal(Message{names[i], skipped, data})
			if err != nil {
				return // a number that JSON cannot represent; no source has one
			}
			text += "data: " + string(message) + "\n\n"
		}
		_ = out.SetWriteDeadline(time.Now().Add(stuckAfter)) // recorders in tests support no deadlines
		if _, err := w.Write([]byte(text)); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-time.After(streamPace):
		case <-r.Context().Done():
			return
		case <-s.hub.done:
			return
		}
		text = ""
		select {
		case <-wake:
		case <-ticks.C:
			text = ": alive\n\n"
		case <-r.Context().Done():
			return
		case <-s.hub.done:
			return
		}
	}
}

// find returns the source of a topic by its name.
func (s *Server) find(name string) (source, error) {
	kind, id, _ := strings.Cut(name, ":")
	switch {
	case name == "runs":
		return s.every(func() (any, error) { return listRuns(s.cfg.Logs) }), nil
	case name == "metrics" && s.cfg.Metrics != nil:
		return s.every(s.sample), nil
	case name == "sessions" && s.cfg.Sessions != nil:
		return s.every(s.sessions), nil
	case name == "shadows":
		return s.every(func() (any, error) { return s.listReports() }), nil
	case name == "cluster" && s.cfg.Cluster != nil:
		return &clusterSource{cluster: s.cfg.Cluster}, nil
	case kind == "run" && s.cfg.Logs != "":
		if _, err := s.readRun(id); err != nil {
			return nil, err
		}
		return &runSource{s: s, id: id}, nil
	case kind == "episode" && s.cfg.Open != nil:
		return s.episodes.find(id)
	}
	return nil, fmt.Errorf("%w %q here; docs/board.md lists them", errNoTopic, name)
}

// errNoTopic is the error of find for names that are never topics of this page.
var errNoTopic = errors.New("no topic")

// failure is the source of an invalid topic: it sends the reason once.
type failure string

func (failure) follow(context.Context, func()) {}

func (f failure) update(seen any) (data, now any, skipped int) {
	if seen != nil {
		return nil, seen, 0
	}
	return map[string]string{"error": string(f)}, f, 0
}

// awaited is the source of a topic that may appear later, such as the first rows of a training. Until then it sends the
// reason why it is missing.
type awaited struct {
	find   func() (source, error)
	every  time.Duration
	reason string

	mu     sync.Mutex
	source source // nil until found
}

// notYet marks a viewer who has been notified that the topic is missing.
type notYet struct{}

func (a *awaited) follow(ctx context.Context, changed func()) {
	ticks := time.NewTicker(a.every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if src, err := a.find(); err == nil {
			a.mu.Lock()
			a.source = src
			a.mu.Unlock()
			changed()
			src.follow(ctx, changed)
			return
		}
	}
}

func (a *awaited) update(seen any) (data, now any, skipped int) {
	a.mu.Lock()
	src := a.source
	a.mu.Unlock()
	_, waits := seen.(notYet)
	switch {
	case src != nil && waits:
		return src.update(nil) // the viewer has seen no state of it
	case src != nil:
		return src.update(seen)
	case waits:
		return nil, seen, 0
	}
	return map[string]string{"error": a.reason}, notYet{}, 0
}

// poller is a source that polls its state.
type poller struct {
	every time.Duration
	poll  func() (any, error)

	mu      sync.Mutex
	latest  any
	version int
}

// every returns a source that polls at the configured interval.
func (s *Server) every(poll func() (any, error)) *poller {
	return &poller{every: s.cfg.Every, poll: poll}
}

func (p *poller) follow(ctx context.Context, changed func()) {
	ticks := time.NewTicker(p.every)
	defer ticks.Stop()
	for {
		data, err := p.poll()
		if err != nil {
			data = map[string]string{"error": err.Error()}
		}
		p.mu.Lock()
		changes := !reflect.DeepEqual(data, p.latest)
		if changes {
			p.latest = data
			p.version++
		}
		p.mu.Unlock()
		if changes {
			changed()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

func (p *poller) update(seen any) (data, now any, skipped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, _ := seen.(int)
	if p.version == before {
		return nil, seen, 0
	}
	return p.latest, p.version, skippedSince(before, p.version)
}

// skippedSince counts the states between version before, 0 if none was seen, and version now.
func skippedSince(before, now int) int {
	if before == 0 {
		return 0
	}
	return now - before - 1
}
