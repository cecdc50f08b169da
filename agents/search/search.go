// Package search plans by playing copies of an environment. A [Searcher] tries candidate actions, lets a base policy,
// which is a baseline or a trained model, continue after each in random futures, and chooses by the returns. A [Policy]
// searches in the environments of a Vec.
//
// A copy of an environment holds the episode's own future, so the search draws another with the environment's
// [envs.Resampler]. It rejects environments without one, unless Clairvoyant allows it to play the episode's own future,
// which no agent can know.
//
// [MethodPosterior] copies nothing: it asks the environment itself what actions gain, and a model.
package search

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
)

// Methods of search.
const (
	// MethodRollout compares all candidates in the same futures, and deviates from the base policy
	// only if the mean gain less Confidence standard errors is above 0.
	MethodRollout = "rollout"
	// MethodGumbel draws actions without replacement from a prior around the base policy, and evaluates them by
	// sequential halving: Danihelka et al., "Policy improvement by planning with Gumbel", ICLR 2022.
	MethodGumbel = "gumbel"
	// MethodPosterior weighs what a model of gains expects of each action with rollouts that the environment plays by its
	// heuristic ([envs.GainEstimator]), and takes the action with the highest weighted mean.
	MethodPosterior = "posterior"
)

// Parameters are the settings of a search that [Parse] reads, with the tags of options.
type Parameters struct {
	Base        string  `opt:"base" doc:"baseline, or file of a model, that plays on after each action; posterior: file of a model of gains, such as podsched advantage writes"`
	Advisers    string  `opt:"advisers" doc:"rollout: baselines whose actions are tried first, such as FGD+BestFit; others are drawn"`
	Actions     int     `opt:"k" doc:"actions tried"`
	Futures     int     `opt:"m" doc:"futures played for each action; the simulations of gumbel are k × m"`
	Confidence  float64 `opt:"confidence" doc:"rollout: standard errors by which an action must be better in the mean than the base policy's"`
	Exploration float64 `opt:"exploration" doc:"gumbel: prior probability of all actions that the base policy does not take"`
	Trust       float64 `opt:"trust" doc:"posterior: number of futures that the model counts as"`
	Horizon     int     `opt:"horizon" doc:"steps after which a simulation ends; 0 plays to the episode's end"`
	Value       bool    `opt:"value" doc:"add the base model's value of the state where a simulation ends by the horizon; returns have the discount of its training"`
	Millis      int     `opt:"ms" doc:"milliseconds for a decision, after which no further future is begun; 0 is no limit. Decisions then depend on the machine"`
	Seed        int     `opt:"seed" doc:"random seed of futures and of the actions tried"`
	Clairvoyant bool    `opt:"clairvoyant" doc:"play the episode's own future, which no agent can know"`
}

// Config holds the settings of a search.
type Config struct {
	Method string // MethodRollout or MethodGumbel
	Parameters
	Now func() time.Time // a clock, which Millis needs
}

// DefaultParameters are the defaults of Parameters. Base has none.
var DefaultParameters = Parameters{Actions: 6, Futures: 12, Confidence: 1, Exploration: 0.5, Trust: 24}

// Parse reads a method with parameters, such as "rollout:base=WeightedFGD,k=6,m=12".
func Parse(text string) (Config, error) {
	method, given, _ := strings.Cut(text, ":")
	c := Config{Method: method, Parameters: DefaultParameters}
	form := envs.Parametric(envs.Baseline{Name: method}, DefaultParameters, func(Parameters) func(envs.Task) (envs.Policy, error) { return nil })
	values, err := form.ParseParameters(given)
	if err == nil {
		err = envs.DecodeOptions(values, &c.Parameters)
	}
	if err != nil {
		return Config{}, fmt.Errorf("search %q: %w", text, err)
	}
	return c, c.check()
}

// IsSearch reports whether text names a method that [Parse] reads.
func IsSearch(text string) bool {
	method, _, _ := strings.Cut(text, ":")
	return method == MethodRollout || method == MethodGumbel || method == MethodPosterior
}

func (c *Config) check() error {
	switch {
	case !IsSearch(c.Method):
		return fmt.Errorf("search: method %q, want %s, %s or %s", c.Method, MethodRollout, MethodGumbel, MethodPosterior)
	case c.Actions < 2 || c.Futures < 1 || !(c.Confidence >= 0) || c.Horizon < 0 || c.Millis < 0:
		return fmt.Errorf("search: k=%d, m=%d, confidence=%v, horizon=%d and ms=%d, want at least 2, 1, 0, 0 and 0", c.Actions, c.Futures, c.Confidence, c.Horizon, c.Millis)
	case c.Method == MethodRollout && c.Futures == 1 && c.Confidence > 0:
		return fmt.Errorf("search: m=1 and confidence=%v: one future has no standard error, so the base policy always decides; want m=2 at least, or confidence=0", c.Confidence)
	case !(c.Exploration > 0 && c.Exploration < 1):
		return fmt.Errorf("search: exploration=%v, want a number between 0 and 1", c.Exploration)
	case c.Base == "":
		return errors.New("search: no base, want base=NAME, a baseline or the file of a model that plays on after each action")
	case c.Method == MethodPosterior && !c.OverModel():
		return fmt.Errorf("search: posterior with base=%s, want the file of a model of gains (%s)", c.Base, models.Ext)
	case c.Method == MethodPosterior && (c.Horizon > 0 || c.Value || c.Clairvoyant || c.Millis > 0 || c.Advisers != ""):
		return errors.New("search: posterior takes no horizon, value, clairvoyant, ms and advisers")
	case !(c.Trust >= 0):
		return fmt.Errorf("search: trust=%v, want at least 0", c.Trust)
	case c.Value && (c.Horizon == 0 || !c.OverModel()):
		return fmt.Errorf("search: value=true with base=%s and horizon=%d, want the file of a model and at least 1 step", c.Base, c.Horizon)
	}
	return nil
}

// OverModel reports whether the base policy is a model.
func (c *Config) OverModel() bool { return strings.HasSuffix(c.Base, models.Ext) }
