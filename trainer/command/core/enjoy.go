package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// modeANSI is the render mode for terminals.
const modeANSI = "ansi"

// clearScreen moves a terminal's cursor to the top left and clears the screen.
const clearScreen = "\x1b[H\x1b[2J"

// maxFPS keeps the time between frames above a terminal's own.
const maxFPS = 1000

// ansiRenderer is a vector that renders an environment as text, here or at a server.
type ansiRenderer interface {
	RenderANSI(i int) (string, error)
}

// enjoyConfig holds the arguments of enjoy.
type enjoyConfig struct {
	play.Config
	fps      float64 // frames per second; 0 is as fast as possible
	noRender bool
	board    bool   // in the browser instead of the terminal
	listen   string // address of the page
}

// enjoyResult is the JSON of `enjoy --json`.
type enjoyResult struct {
	Policy  string    `json:"policy"`
	Env     string    `json:"env"`
	Returns []float64 `json:"returns"`
	Lengths []int64   `json:"lengths"`
}

func newEnjoy() *cobra.Command {
	var c enjoyConfig
	var parse func() error
	cmd := &cobra.Command{
		Use:   "enjoy",
		Short: "Watch a model or a baseline play, as text in the terminal or on a page in the browser",
		Example: `  trainer enjoy --model logs/ppo/classic-CartPole-v1_1/best_model.safetensors --fps 25
  trainer enjoy --env k8s/GangWindow-v0 --baseline dynamic_mpc --episodes 1 --fps 5
  trainer enjoy --env k8s/PodBalance-v0 --baseline Greedy --board                  # in the browser
  trainer enjoy --model FILE --url ws://127.0.0.1:8765       # on a server
  trainer enjoy --env classic/CartPole-v1 --baseline random --fps 0 | less     # frame after frame`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := parse(); err != nil {
				return err
			}
			switch {
			case len(c.URLs) > 1:
				return errors.New("one environment plays, on one server: --url was given more than once")
			case c.Episodes < 1:
				return fmt.Errorf("--episodes %d, want at least 1", c.Episodes)
			case !(c.fps >= 0 && c.fps <= maxFPS):
				return fmt.Errorf("--fps %v, want 0 to %d", c.fps, maxFPS)
			}
			if c.board {
				return c.onBoard(cmd.Context(), func(url string) { fmt.Fprintln(cmd.OutOrStdout(), url) })
			}
			c.noRender = c.noRender || cli.WantJSON(cmd)
			res, err := enjoy(cmd.Context(), c, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			return cli.Printf(cmd, res, "%s on %s: mean return %.2f over %d episodes\n", res.Policy, res.Env, tracking.Mean(res.Returns), len(res.Returns))
		},
	}
	parse = addPolicyFlags(cmd, &c.Config)
	f := cmd.Flags()
	f.IntVar(&c.Episodes, "episodes", 3, "episodes to watch")
	f.Float64Var(&c.fps, "fps", 10, "frames per second; 0 is as fast as possible")
	f.BoolVar(&c.board, "board", false, "play one episode on a page in the browser, with --fps steps per second while somebody watches")
	f.StringVar(&c.listen, "listen", boardAddress, "address of the page")
	f.BoolVar(&c.noRender, "no-render", false, "print the returns only")
	f.Uint64Var(&c.Seed, "seed", play.CompareSeed, "random seed of the first episode; each further episode has the next seed")
	f.StringArrayVar(&c.URLs, "url", nil, "server to play on, such as ws://127.0.0.1:8765")
	return cmd
}

// onBoard serves the page of trainer board with a started episode, until ctx ends.
func (c *enjoyConfig) onBoard(ctx context.Context, ready func(url string)) error {
	if len(c.URLs) > 0 {
		return errors.New("--board plays in this process, not at --url")
	}
	spec, kwargs, err := c.PlayedEnv(ctx)
	if err != nil {
		return err
	}
	b := boardConfig{listen: c.listen}
	b.AllowControl = true // it plays without one
	policy := c.Baseline
	if c.Model != "" {
		policy, b.Models = c.Model, []string{c.Model}
	}
	if err := b.readToken(); err != nil {
		return err
	}
	rate := cmp.Or(c.fps, board.MaxRate)
	b.begin = func(ctx context.Context, page *board.Server) (string, error) {
		id, err := page.Begin(ctx, spec.ID, kwargs, c.Seed, policy, rate)
		return "#play?episodes=" + id, err
	}
	return b.serve(ctx, ready)
}

// enjoy plays one episode after another and shows each step on w.
func enjoy(ctx context.Context, c enjoyConfig, w io.Writer) (*enjoyResult, error) {
	spec, kwargs, err := c.PlayedEnv(ctx)
	if err != nil {
		return nil, err
	}
	if !c.noRender && !slices.Contains(spec.RenderModes, modeANSI) {
		return nil, fmt.Errorf("%s has the render modes %v, not %s: --no-render plays it unseen", spec.ID, spec.RenderModes, modeANSI)
	}
	// Without autoreset, so that the last state of an episode stays visible.
	v, err := play.OpenEnvs(ctx, spec, 1, envs.VecOptions{Options: kwargs, Autoreset: envs.Disabled}, c.URLs)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	r, _ := v.(ansiRenderer) // every vector implements it
	v = c.Follow(ctx, v)
	name, policy, closePolicy, err := play.OpenPolicy(ctx, v, c.Config)
	if err != nil {
		return nil, err
	}
	defer closePolicy()
	s := &screen{w: w, off: c.noRender, terminal: tracking.IsTerminal(w)}
	if c.fps > 0 {
		s.pause = time.Duration(float64(time.Second) / c.fps)
	}
	res := &enjoyResult{Policy: name, Env: spec.ID}
	for k, seed := range evaluation.Seeds(c.Seed, c.Episodes) {
		title := fmt.Sprintf("%s on %s, episode %d of %d, seed %d", name, spec.ID, k+1, c.Episodes, seed)
		b, err := play.PlayEpisode(ctx, v, policy, envs.VecResetOptions{Seeds: []uint64{seed}}, func(b *envs.Batch, action []float32) error {
			return s.show(ctx, r, title+"\n"+outcome(b, action))
		})
		if err != nil {
			return nil, err
		}
		res.Returns, res.Lengths = append(res.Returns, b.EpisodeReturn[0]), append(res.Lengths, b.EpisodeLength[0])
	}
	return res, nil
}

// outcome returns the result of an action as text, or says that there was no action yet.
func outcome(b *envs.Batch, action []float32) string {
	if action == nil {
		return "start"
	}
	return fmt.Sprintf("step %d  action %s  reward %.4g  return %.4g%s",
		b.EpisodeLength[0], actionText(action), b.Reward[0], b.EpisodeReturn[0], endText(b))
}

// actionText formats an action. It prints whole numbers without decimals.
func actionText(action []float32) string {
	words := make([]string, len(action))
	for i, a := range action {
		words[i] = fmt.Sprintf("%.4g", a)
		if a == float32(math.Trunc(float64(a))) {
			words[i] = fmt.Sprintf("%.0f", a)
		}
	}
	return strings.Join(words, " ")
}

func endText(b *envs.Batch) string {
	switch {
	case b.Terminated[0]:
		return "  terminated"
	case b.Truncated[0]:
		return "  truncated"
	}
	return ""
}

// screen shows frames: in place on a terminal, one below another elsewhere.
type screen struct {
	w        io.Writer
	off      bool
	terminal bool
	pause    time.Duration
}

// show renders environment 0 of r below head, and waits.
func (s *screen) show(ctx context.Context, r ansiRenderer, head string) error {
	if s.off {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return nil
	}
	text, err := r.RenderANSI(0)
	if err != nil {
		return err
	}
	before := ""
	if s.terminal {
		before = clearScreen
	}
	if _, err := fmt.Fprintf(s.w, "%s%s\n%s\n\n", before, head, strings.TrimRight(text, "\n")); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.pause):
		return nil
	}
}
