package envs

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agnivade/levenshtein"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Spec describes an environment: how to make it, its options, diagnostics and baselines.
type Spec struct {
	ID  string // "<namespace>/<Name>-v<version>", as in Gymnasium
	Doc string // one sentence

	// Open reads opts, loads what all copies share, and returns the maker of tasks. An option that is unknown or out of
	// range is an error that wraps ErrInvalidOption. The function [Open] makes an Open.
	Open func(opts map[string]any) (Maker, error)

	// Backend opens the cluster backend of the episodes, from the same opts as Open, and returns a function that makes
	// the cluster of one environment. A nil Backend means package sim. Errors are as of Open.
	Backend func(opts map[string]any) (func() (cluster.Cluster, error), error)

	// Live makes a task that decides for a running cluster of the given number of nodes, from the
	// same opts as Open; options that draw instances have no effect. It is nil if the environment
	// cannot do so. Errors are as of Open.
	Live func(opts map[string]any, nodes int) (Live, error)

	// Options is a pointer to the struct of options with its defaults set, for help texts and clients; nil if there are
	// none. See [DescribeOptions] for its tags.
	Options any

	// HeldOut are options that select held-out instances for evaluation; nil if other seeds suffice.
	HeldOut map[string]any

	// Validation are options that select the instances of evaluations during training, which choose the best model.
	// They override HeldOut. They are needed if other seeds draw from the same few held-out instances, and are nil
	// otherwise.
	Validation map[string]any

	MaxEpisodeSteps  int     // time limit in steps; 0 is none. An option of the task may change it: see Limiter
	RewardThreshold  float64 // mean return at which the task counts as solved; meaningful if HasThreshold
	HasThreshold     bool
	StepNanos        int  // rough cost of a step in nanoseconds, to divide the work among goroutines; default 1000; see Coster
	Nondeterministic bool // equal seeds need not give equal episodes
	RenderModes      []string

	Info      []Column   // columns of the task's InfoWriter
	Metrics   []Metric   // columns of Info to report at the end of each episode; the first ranks policies
	Baselines []Baseline // in the order of reports

	// RankBy returns the column of the metric that ranks policies with these options, or "" for the
	// first of Metrics. A nil RankBy means the first, too.
	RankBy func(opts map[string]any) string
}

// A Maker makes the Task of one environment. Tasks of one Maker may share read-only data.
type Maker func() (Task, error)

// Limiter is implemented by tasks whose options determine the time limit. It takes precedence over
// [Spec.MaxEpisodeSteps].
type Limiter interface {
	MaxEpisodeSteps() int
}

// Column is one diagnostic of a step.
type Column struct {
	Name  string
	DType string // NumPy's name: "float64", "int64" or "bool"
	Doc   string
}

// Metric names a column of Info whose value at an episode's last step is the episode's outcome, in
// the units of the field.
type Metric struct {
	Column string
	Unit   string
	Lower  bool // lower is better
}

// Column returns the index of the column of Info called name, or -1.
func (s *Spec) Column(name string) int {
	return slices.IndexFunc(s.Info, func(c Column) bool { return c.Name == name })
}

// Ranking returns the metrics of episodes with these options; the first ranks policies.
func (s *Spec) Ranking(opts map[string]any) []Metric {
	if s.RankBy == nil {
		return s.Metrics
	}
	i := slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Column == s.RankBy(opts) })
	if i <= 0 {
		return s.Metrics
	}
	return slices.Concat(s.Metrics[i:i+1], s.Metrics[:i], s.Metrics[i+1:])
}

var (
	idPattern = regexp.MustCompile(`^(?:([\w:.-]+)/)?([\w:.-]+?)(?:-v(\d+))?$`)

	registryMu sync.RWMutex
	registry   = map[string]*Spec{}
)

// Register adds s to the registry. It is called from init functions and panics if the ID is
// malformed or taken, or Open is nil.
func Register(s *Spec) {
	if m := idPattern.FindStringSubmatch(s.ID); m == nil || m[3] == "" {
		panic(fmt.Sprintf("envs: id %q is not of the form namespace/Name-v0", s.ID))
	}
	if s.Open == nil {
		panic(fmt.Sprintf("envs: %s has no Open", s.ID))
	}
	for _, m := range s.Metrics {
		if s.Column(m.Column) < 0 {
			panic(fmt.Sprintf("envs: %s: metric %s is no column of Info", s.ID, m.Column))
		}
	}
	registryMu.Lock()
	defer registryMu.Unlock()
	if _, ok := registry[s.ID]; ok {
		panic(fmt.Sprintf("envs: %s registered twice", s.ID))
	}
	registry[s.ID] = s
}

// Specs returns all registered environments by ascending id.
func Specs() []*Spec {
	registryMu.RLock()
	defer registryMu.RUnlock()
	return slices.SortedFunc(maps.Values(registry), func(a, b *Spec) int { return cmp.Compare(a.ID, b.ID) })
}

// An UnknownIDError is returned by [Lookup] for an id that is not registered.
type UnknownIDError struct {
	ID          string
	Suggestions []string // similar registered ids, best first
}

func (e *UnknownIDError) Error() string {
	if len(e.Suggestions) == 0 {
		return fmt.Sprintf("envs: no environment %s is registered", quote(e.ID))
	}
	return fmt.Sprintf("envs: no environment %s is registered; did you mean %s?", quote(e.ID), strings.Join(e.Suggestions, " or "))
}

// Lookup returns the environment with the given id. An id without a version selects the highest one. The error for an
// unknown id is an [*UnknownIDError].
func Lookup(id string) (*Spec, error) {
	registryMu.RLock()
	s, ok := registry[id]
	registryMu.RUnlock()
	if ok {
		return s, nil
	}
	if len(id) > maxName {
		return nil, &UnknownIDError{ID: id}
	}
	m := idPattern.FindStringSubmatch(id)
	if m != nil && m[3] == "" {
		if s := highestVersion(id); s != nil {
			return s, nil
		}
	}
	return nil, &UnknownIDError{ID: id, Suggestions: suggestions(id)}
}

func highestVersion(name string) *Spec {
	var best *Spec
	bestVersion := -1
	for _, s := range Specs() {
		base, v := cutVersion(s.ID)
		if base == name && v > bestVersion {
			best, bestVersion = s, v
		}
	}
	return best
}

// cutVersion splits an id into its name and its version; an id without a version has 0.
func cutVersion(id string) (base string, version int) {
	if i := strings.LastIndex(id, "-v"); i >= 0 {
		if v, err := strconv.Atoi(id[i+2:]); err == nil {
			return id[:i], v
		}
	}
	return id, 0
}

// suggestions returns the ids that differ from id in at most a third of its letters. It ignores the
// namespace, the case and the version.
func suggestions(id string) []string {
	bare := func(s string) string {
		if i := strings.LastIndex(s, "/"); i >= 0 {
			s = s[i+1:]
		}
		s, _ = cutVersion(s)
		return strings.ToLower(s)
	}
	type scored struct {
		id string
		d  int
	}
	var near []scored
	for _, s := range Specs() {
		d := levenshtein.ComputeDistance(bare(id), bare(s.ID))
		if d <= max(1, len(bare(id))/3) {
			near = append(near, scored{s.ID, d})
		}
	}
	slices.SortStableFunc(near, func(a, b scored) int { return cmp.Compare(a.d, b.d) })
	var ids []string
	for _, n := range near[:min(3, len(near))] {
		ids = append(ids, n.id)
	}
	return ids
}
