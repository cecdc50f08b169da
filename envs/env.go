// Package envs defines environments: the contract between the authors of problems, the learning
// algorithms and the server.
//
// An author writes a [Task]. [NewEnv] makes an [Env] of it and adds what every environment needs:
// seeding, checks, the time limit, episode statistics. [NewVec] steps many of them together. Names
// and semantics are Gymnasium's.
package envs

import (
	"context"
	"errors"
	"image"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// A Task defines an environment: its instances, observations, actions and rewards.
//
// A Task may also implement [InfoWriter], [ResetOptioner], [Renderer], [Charter], [Planner],
// [Cloner], [Resumer], [Sized] and [io.Closer]. One goroutine uses it at a time.
type Task interface {
	// Spaces returns the observation and the action space, which never change.
	Spaces() (obs, act space.Space)

	// Begin starts an episode on c, which is empty: it draws an instance with rng, adds its
	// nodes and pods, and advances c to the first decision. Equal states of rng give equal
	// episodes. The Task may keep rng and draw from it until the next Begin. The raw stream
	// of rng is NumPy's PCG64 (package pcg).
	Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error

	// Apply carries out action, which is in the action space, and advances c to the next decision.
	// If Observe masked the action out, Apply has the effect that the task documents; it is not an
	// error. Apply does not keep action.
	Apply(ctx context.Context, c cluster.Cluster, action []float32) (Outcome, error)

	// Observe writes the observation of the current state to obs and the permitted actions
	// to mask, whose lengths are the sizes given by Spaces and [space.MaskSize]. It sets every
	// element, changes nothing else and does not keep its arguments. At least one action of
	// each part must be permitted.
	Observe(s *cluster.State, obs []float32, mask []bool)
}

// Outcome is the result of one action.
type Outcome struct {
	Reward     float64
	Terminated bool // the task reached a terminal state of its MDP
}

// InfoWriter is implemented by tasks that report diagnostics: one number for each column of
// [Spec.Info]. Agents must not need them to act.
type InfoWriter interface {
	// Info writes the diagnostics of the last Begin or Apply to dst, in the order of the
	// columns. It sets every element.
	Info(s *cluster.State, dst []float64)
}

// ResetOptioner is implemented by tasks that accept options at reset, Gymnasium's
// reset(options=...).
type ResetOptioner interface {
	// ResetOptions is called before Begin with the options given to that reset, and never
	// with an empty map. An option that the Task does not know is an error.
	ResetOptions(opts map[string]any) error
}

// Renderer is implemented by tasks that can show themselves.
type Renderer interface {
	// RenderANSI returns the current state as text for a terminal.
	RenderANSI(s *cluster.State) string
	// RenderRGB returns the current state as an image of constant size.
	RenderRGB(s *cluster.State) *image.RGBA
}

// Noter is implemented by tasks that warn users of faults in their data, such as missing samples.
type Noter interface {
	// Notes returns sentences, each with a file and a line. They are the same for all copies.
	Notes() []string
}

// Charter is implemented by tasks that can show an episode over time.
type Charter interface {
	// Chart returns the running episode so far, or the one that has ended.
	Chart() *Chart
}

// Chart shows an episode over time, in panels above one another on one time axis.
type Chart struct {
	Title  string
	XLabel string
	X      []float64 // ascending
	Panels []ChartPanel
	Events []ChartEvents
}

// ChartPanel shows quantities of one unit.
type ChartPanel struct {
	YLabel string
	Lines  []ChartLine
}

// ChartLine is a quantity over time.
type ChartLine struct {
	Name string
	Y    []float64 // as long as the chart's X; NaN where there is nothing to show
}

// ChartEvents are events of one kind.
type ChartEvents struct {
	Name string
	X    []float64
}

var (
	// ErrResetNeeded is returned by Step before the first Reset and after an episode's end.
	ErrResetNeeded = errors.New("envs: reset needed")
	// ErrInvalidAction is wrapped by errors of Step for actions outside the action space.
	ErrInvalidAction = errors.New("envs: invalid action")
	// ErrInvalidOption is wrapped by errors for options that an environment does not know or
	// cannot take.
	ErrInvalidOption = errors.New("envs: invalid option")
	// ErrClosed is returned by every method but Close after Close.
	ErrClosed = errors.New("envs: closed")
)
