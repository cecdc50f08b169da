package board

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
)

// Bounds of episodes.
const (
	maxEpisodes = 16   // kept at a time; the least recently used is closed
	maxSteps    = 2000 // of one request
)

// An episode is played by a policy, step by step. Any of its steps can be viewed: its moves are recorded and replayed.
type episode struct {
	mu      sync.Mutex // guards the fields up to info
	make    func() (*envs.Vec, error)
	seed    uint64
	policy  string
	player  agents.Policy
	free    func()    // frees player
	live    *envs.Vec // at the latest step
	batch   *envs.Batch
	moves   []move
	returns []float64 // after each step
	spans   []stepSpans
	racks   []string // by node; nil is none

	view   *envs.Vec // at the viewed step
	viewed int
	seen   *envs.Batch

	info EpisodeInfo

	// The state that viewers see. Viewers take no other lock, so that they never delay a step.
	shown struct {
		sync.Mutex
		info    *EpisodeInfo // not modified
		version int
	}
	rate float64       // steps per second while somebody watches; guarded by mu
	kick chan struct{} // receives after a change of rate
}

// A move is an action, with the plan that the policy left in the environment.
type move struct {
	action []float32
	plan   envs.Plan // nil if there is none
}

// step makes a move in v, for the first time or again. It ignores the end of ctx, since an interrupted step would leave
// the environment in no valid state.
func (m move) step(ctx context.Context, v *envs.Vec) (*envs.Batch, error) {
	if planner, ok := v.Env(0).Task().(envs.Planner); ok {
		planner.TakePlan() // discard the plan of a policy that was only queried
		if m.plan != nil {
			planner.LeavePlan(m.plan)
		}
	}
	return v.Step(context.WithoutCancel(ctx), m.action)
}

// EpisodeInfo describes an episode.
type EpisodeInfo struct {
	ID      string         `json:"id"`
	Env     string         `json:"env"`
	Options map[string]any `json:"options"`
	Seed    uint64         `json:"seed"`
	Policy  string         `json:"policy"`
	Columns []string       `json:"columns"` // of info
	Nodes   []NodeInfo     `json:"nodes"`   // of the cluster, if there is one
	Steps   int            `json:"steps"`
	Rate    float64        `json:"steps_per_s"`     // while somebody watches; 0: paused
	Error   string         `json:"error,omitempty"` // that stopped it
	Done    string         `json:"done"`            // "terminated", "truncated" or ""
	Returns []float64      `json:"returns"`
	Frame   *Frame         `json:"frame"` // of the latest step
}

// episodes holds the episodes of a Server.
type episodes struct {
	open Open

	mu   sync.Mutex
	next int
	all  []*episode // the most recently used is last
}

// find returns an episode and marks it as used.
func (e *episodes) find(id string) (*episode, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.all, func(ep *episode) bool { return ep.info.ID == id })
	if i < 0 {
		return nil, &httpError{http.StatusNotFound, fmt.Sprintf("no episode %s: %d are kept, and restarts forget them", strconv.Quote(id), maxEpisodes)}
	}
	ep := e.all[i]
	e.all = append(slices.Delete(e.all, i, i+1), ep)
	return ep, nil
}

// add gives an episode its id and keeps it.
func (e *episodes) add(ep *episode) error {
	e.mu.Lock()
	e.next++
	ep.info.ID = strconv.Itoa(e.next)
	e.all = append(e.all, ep)
	var oldest *episode
	if len(e.all) > maxEpisodes {
		oldest = e.all[0]
		e.all = slices.Delete(e.all, 0, 1)
	}
	e.mu.Unlock()
	if oldest == nil {
		return nil
	}
	return oldest.close() // outside the lock: close waits for the episode's last request
}

func (e *episodes) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, ep := range e.all {
		errs = append(errs, ep.close())
	}
	e.all = nil
	return errors.Join(errs...)
}

func (e *episodes) get(id string) (*EpisodeInfo, error) {
	ep, err := e.find(id)
	if err != nil {
		return nil, err
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return ep.describe(), nil
}

// start starts an episode and plays the given moves.
func (e *episodes) start(ctx context.Context, env string, opts map[string]any, seed uint64, policy string, moves []move) (*EpisodeInfo, error) {
	ep := &episode{seed: seed, policy: policy, kick: make(chan struct{}, 1), make: func() (*envs.Vec, error) {
		return envs.Make(env, 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
	}}
	if err := ep.begin(ctx, e.open, moves); err != nil {
		return nil, errors.Join(err, ep.close())
	}
	ep.info = EpisodeInfo{Env: ep.live.Spec().ID, Options: opts, Seed: seed, Policy: policy, Columns: []string{}}
	for _, c := range ep.live.Spec().Info {
		ep.info.Columns = append(ep.info.Columns, c.Name)
	}
	if err := e.add(ep); err != nil {
		return nil, err
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return ep.describe(), nil
}

func (ep *episode) begin(ctx context.Context, open Open, moves []move) (err error) {
	if ep.live, err = ep.make(); err != nil {
		return err
	}
	if ep.view, err = ep.make(); err != nil {
		return err
	}
	// The episode outlives the request that starts it.
	if ep.player, ep.free, err = open(context.WithoutCancel(ctx), ep.live, ep.policy, ep.seed); err != nil {
		return err
	}
	if ep.batch, err = ep.live.Reset(ctx, envs.VecResetOptions{Seeds: []uint64{ep.seed}}); err != nil {
		return err
	}
	if ep.seen, err = ep.view.Reset(ctx, envs.VecResetOptions{Seeds: []uint64{ep.seed}}); err != nil {
		return err
	}
	ep.racks = racksOf(ep.live)
	for _, m := range moves {
		if err := ep.play(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the policy's next move.
func (ep *episode) choose() (move, error) {
	_, act := ep.live.Spaces()
	m := move{action: make([]float32, act.Size())}
	if err := ep.player.Act(ep.batch, m.action); err != nil {
		return m, err
	}
	if planner, ok := ep.live.Env(0).Task().(envs.Planner); ok {
		m.plan = planner.TakePlan()
	}
	return m, nil
}

// play makes a move, unless ctx has ended.
func (ep *episode) play(ctx context.Context, m move) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, act := ep.live.Spaces(); len(m.action) != act.Size() {
		return fmt.Errorf("an action of %d numbers, want %d", len(m.action), act.Size())
	}
	if ep.batch, err = m.step(ctx, ep.live); err != nil {
		return err
	}
	ep.moves = append(ep.moves, move{slices.Clone(m.action), m.plan})
	ep.returns = append(ep.returns, ep.batch.EpisodeReturn[0])
	ep.noteSpans()
	return nil
}

func (ep *episode) done() string {
	switch {
	case len(ep.moves) == 0:
		return ""
	case ep.batch.Terminated[0]:
		return "terminated"
	case ep.batch.Truncated[0]:
		return "truncated"
	}
	return ""
}

// reached rejects a step that the episode has not reached.
func (ep *episode) reached(step int) error {
	if step < 0 || step > len(ep.moves) {
		return fmt.Errorf("step %d of an episode with %d", step, len(ep.moves))
	}
	return nil
}

// seek moves the view to a step. It stops between steps if ctx ends.
func (ep *episode) seek(ctx context.Context, step int) (err error) {
	if err := ep.reached(step); err != nil {
		return err
	}
	if step < ep.viewed {
		ep.viewed = 0
		if ep.seen, err = ep.view.Reset(context.WithoutCancel(ctx), envs.VecResetOptions{Seeds: []uint64{ep.seed}}); err != nil {
			return err
		}
	}
	for ep.viewed < step {
		if err := ctx.Err(); err != nil {
			return err
		}
		if ep.seen, err = ep.moves[ep.viewed].step(ctx, ep.view); err != nil {
			return err
		}
		ep.viewed++
	}
	return nil
}

// describe returns the present state of the episode.
func (ep *episode) describe() *EpisodeInfo {
	info := ep.info
	info.Steps, info.Done, info.Nodes = len(ep.moves), ep.done(), nodesOf(ep.live.Env(0).State(), ep.racks)
	info.Rate = ep.rate
	info.Returns = append([]float64{}, ep.returns...)
	info.Frame = ep.frame(ep.live, ep.batch, len(ep.moves))
	return &info
}

func (ep *episode) close() error {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.free != nil {
		ep.free()
	}
	var errs []error
	for _, v := range []*envs.Vec{ep.live, ep.view} {
		if v != nil {
			errs = append(errs, v.Close())
		}
	}
	return errors.Join(errs...)
}

// Begin starts an episode and returns its id, for the address #play?episodes=ID. The episode plays at stepsPerSecond
// while somebody watches.
func (s *Server) Begin(ctx context.Context, env string, opts map[string]any, seed uint64, policy string, stepsPerSecond float64) (id string, err error) {
	info, err := s.episodes.start(ctx, env, opts, seed, policy, nil)
	if err != nil {
		return "", err
	}
	ep, err := s.episodes.find(info.ID)
	if err != nil {
		return "", err
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return info.ID, ep.setRate(stepsPerSecond)
}

// begin answers POST /api/episodes.
func (s *Server) begin(r *http.Request) (any, error) {
	var ask struct {
		Env     string         `json:"env"`
		Options map[string]any `json:"options"`
		Seed    uint64         `json:"seed"`
		Policy  string         `json:"policy"`
	}
	if err := decode(r, &ask); err != nil {
		return nil, err
	}
	spec, err := envs.Lookup(ask.Env)
	if err != nil {
		return nil, err
	}
	opts := maps.Clone(ask.Options)
	if opts == nil {
		opts = map[string]any{}
	}
	for _, o := range envs.DescribeOptions(spec.Options) {
		if o.NamesFile(opts[o.Name]) && s.cfg.Guard.Asks() {
			return nil, &httpError{http.StatusForbidden, fmt.Sprintf("option %s names a file, which only a page on loopback may do", o.Name)}
		}
	}
	return s.episodes.start(r.Context(), ask.Env, opts, ask.Seed, ask.Policy, nil)
}

// step answers POST /api/episodes/{id}/step.
func (s *Server) step(r *http.Request) (any, error) {
	var ask struct {
		Steps  int       `json:"steps"`
		Action []float32 `json:"action"` // instead of the policy's, for one step
	}
	if err := decode(r, &ask); err != nil {
		return nil, err
	}
	if ask.Steps < 1 || ask.Steps > maxSteps || ask.Action != nil && ask.Steps != 1 {
		return nil, fmt.Errorf("steps is %d, want 1 to %d, and 1 with an action", ask.Steps, maxSteps)
	}
	return s.change(r, func(ep *episode) (err error) {
		for i := 0; i < ask.Steps && ep.done() == ""; i++ {
			m := move{action: ask.Action}
			if m.action == nil {
				if m, err = ep.choose(); err != nil {
					return err
				}
			}
			if err := ep.play(r.Context(), m); err != nil {
				return err
			}
		}
		return nil
	})
}

// fork answers POST /api/episodes/{id}/fork: another policy continues from a step.
func (s *Server) fork(r *http.Request) (any, error) {
	var ask struct {
		Step   int    `json:"step"`
		Policy string `json:"policy"`
	}
	if err := decode(r, &ask); err != nil {
		return nil, err
	}
	ep, err := s.episodes.find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	ep.mu.Lock()
	info, err := ep.info, ep.reached(ask.Step)
	var moves []move
	if err == nil {
		moves = slices.Clone(ep.moves[:ask.Step])
	}
	ep.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.episodes.start(r.Context(), info.Env, info.Options, info.Seed, ask.Policy, moves)
}
