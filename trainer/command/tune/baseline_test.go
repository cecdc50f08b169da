package tune

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/all"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// valley is a task whose cost is least where its action is hit: by hand, the expected cost of an
// episode with actions (x, n) is (x-0.37)² + 0.05·(n-6)² + the variance of the noise, 1/12.
type valley struct {
	rng  *rand.Rand
	cost float64
}

// valleySteps counts the steps of all tasks; valleyEpisodes their episodes.
var valleySteps, valleyEpisodes atomic.Int64

func (*valley) Spaces() (obs, act space.Space) {
	return space.NewBox(0, 1, 1), space.NewBox(-10, 10, 2)
}

func (v *valley) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	v.rng = rng
	valleyEpisodes.Add(1)
	return nil
}

func (v *valley) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	valleySteps.Add(1)
	x, n := float64(action[0]), float64(action[1])
	noise := v.rng.Float64() - 0.5
	v.cost = (x-0.37+noise)*(x-0.37+noise) + 0.05*(n-6)*(n-6)
	return envs.Outcome{Reward: -v.cost, Terminated: true}, nil
}

func (*valley) Observe(_ *cluster.State, obs []float32, _ []bool) { obs[0] = 0 }

func (v *valley) Info(_ *cluster.State, dst []float64) { dst[0] = v.cost }

// valleySettings are the parameters of its baseline.
type valleySettings struct {
	X    float64 `opt:"x" doc:"The first action." range:"0,1"`
	N    int     `opt:"n" doc:"The second action." range:"1,9"`
	Mode string  `opt:"mode" doc:"Half shifts the first action by 2." range:"half|whole"`
}

var errShort = errors.New("x is below 0.1")

func init() {
	play := func(p valleySettings) func(envs.Task) (envs.Policy, error) {
		return func(envs.Task) (envs.Policy, error) {
			if p.X < 0.1 {
				return nil, errShort
			}
			return func(_ context.Context, _ *cluster.State, _ bool, action []float32) error {
				action[0], action[1] = float32(p.X), float32(p.N)
				if p.Mode == "half" {
					action[0] += 2
				}
				return nil
			}, nil
		}
	}
	envs.Register(&envs.Spec{
		ID: "test/Valley-v0", Doc: "A cost that is least at one action.", MaxEpisodeSteps: 1,
		Open: func(map[string]any) (envs.Maker, error) {
			return func() (envs.Task, error) { return &valley{}, nil }, nil
		},
		Info:    []envs.Column{{Name: "cost", DType: "float64", Doc: "The cost."}},
		Metrics: []envs.Metric{{Column: "cost", Lower: true}},
		Baselines: []envs.Baseline{
			envs.Parametric(envs.Baseline{Name: "constant", Doc: "Takes its parameters as actions."}, valleySettings{X: 0.9, N: 2, Mode: "half"}, play),
			{Name: "plain", Doc: "Takes 0.5 and 5.", New: play(valleySettings{X: 0.5, N: 5})},
		},
	})
}

func baselineResultOf(t *testing.T, args ...string) baselineResult {
	t.Helper()
	return clitest.Decode[baselineResult](t, mustExecute(t, append(args, "--json")...))
}

// valleyArgs tunes the baseline for 20,000 steps.
func valleyArgs(t *testing.T, more ...string) []string {
	return append([]string{"tune", "--baseline", "constant", "--env", "test/Valley-v0", "-n", "20000", "--eval-episodes", "50", "--seed", "3", "-f", t.TempDir()}, more...)
}

// TestTuneBaseline finds the valley's floor, which is known, and counts the steps on the way.
func TestTuneBaseline(t *testing.T) {
	before := valleySteps.Load()
	res := baselineResultOf(t, valleyArgs(t)...)
	spec, err := envs.Lookup("test/Valley-v0")
	if err != nil {
		t.Fatal(err)
	}
	b, err := spec.Baseline(res.Tuned)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := b.New(&valley{})
	if err != nil {
		t.Fatal(err)
	}
	action := make([]float32, 2)
	if err := policy(context.Background(), nil, true, action); err != nil {
		t.Fatal(err)
	}
	if math.Abs(float64(action[0])-0.37) > 0.03 || action[1] != 6 {
		t.Errorf("%s acts %v, want 0.37 ± 0.03 and 6", res.Tuned, action)
	}
	if best := res.Finalists[0]; math.Abs(best.Mean-1.0/12) > 0.02 || len(best.Values) != 250 || !best.Validation {
		t.Errorf("the best is %+v, want a cost of 1/12 in 250 episodes", best)
	}
	// (2.9-0.37)² + 0.05·16 + 1/12 is the cost of the defaults.
	if want := 1.0/12 - (2.53*2.53 + 0.8 + 1.0/12); res.Difference == nil || math.Abs(res.Difference.Mean-want) > 0.1 || !res.Lower || res.Metric != "cost" {
		t.Errorf("difference %+v in %q, want about %v in cost", res.Difference, res.Metric, want)
	}
	if res.Timesteps < 20000 || res.Timesteps >= 20000+50 || res.Candidates < 400 {
		t.Errorf("%d candidates in %d steps, want those of 20000 steps and no more", res.Candidates, res.Timesteps)
	}
	validation := int64(250 * len(res.Finalists))
	if played := valleySteps.Load() - before; played < int64(res.Timesteps-50)+validation {
		t.Errorf("%d steps were played for %d told and %d of validation", played, res.Timesteps, validation)
	}
}

// TestTuneBaselineKeeps searches only what the name leaves open.
func TestTuneBaselineKeeps(t *testing.T) {
	res := baselineResultOf(t, valleyArgs(t, "--baseline", "constant:n=4,mode=whole", "-n", "5000")...)
	for _, c := range res.Finalists {
		if !strings.HasPrefix(c.Baseline, "constant:") || !strings.HasSuffix(c.Baseline, "n=4,mode=whole") {
			t.Errorf("%s does not keep n=4 and mode=whole", c.Baseline)
		}
	}
}

// TestTuneBaselineResume cuts a search's journal in its midst: resumed, the search ends with the
// result of one that was not cut, and plays no candidate again.
func TestTuneBaselineResume(t *testing.T) {
	args := valleyArgs(t, "-n", "3000")
	before := valleyEpisodes.Load()
	whole := baselineResultOf(t, args...)
	all := valleyEpisodes.Load() - before
	path := filepath.Join(whole.Folder, searchName)
	lines := strings.SplitAfter(envstest.Read(t, path), "\n")
	cut := strings.Join(lines[:31], "") + lines[31][:9] // the search, 30 candidates, and a part of one
	envstest.Write(t, path, cut)
	before = valleyEpisodes.Load()
	resumed := baselineResultOf(t, "tune", "--resume", whole.Folder)
	if diff := cmp.Diff(whole, resumed); diff != "" {
		t.Errorf("resumed (-whole +resumed):\n%s", diff)
	}
	if again := valleyEpisodes.Load() - before; again > all-20*50 {
		t.Errorf("%d episodes of %d were played after 30 candidates were on record", again, all)
	}
}

func TestTuneBaselineInterrupt(t *testing.T) {
	before := valleySteps.Load()
	ctx := clitest.CancelWhen(t, func() bool { return valleySteps.Load() > before+1000 })
	_, _, err := execute(t, ctx, valleyArgs(t, "-n", "1000000000")...)
	if !errors.Is(err, cli.ErrInterrupted) || !strings.Contains(err.Error(), "go on with trainer tune --resume ") {
		t.Errorf("interrupted search: %v", err)
	}
}

func TestTuneBaselineRefuses(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{valleyArgs(t, "--baseline", "constnat"), "it has constant, plain"},
		{valleyArgs(t, "--baseline", "constant:y=1"), `unknown option "y"`},
		{valleyArgs(t, "--baseline", "plain"), "has no parameters to search"},
		{valleyArgs(t, "--baseline", "constant:x=0.5,n=4,mode=half"), "has no parameters to search"},
		{valleyArgs(t, "--n-trials", "3"), "--n-trials has no effect"},
		{valleyArgs(t, "--eval-episodes", "1"), "eval-episodes 1"},
		{[]string{"tune", "--resume", t.TempDir(), "--baseline", "constant"}, "--baseline has no effect"},
	} {
		if _, _, err := execute(t, context.Background(), tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("trainer %s: %v, want an error with %q", strings.Join(tc.args, " "), err, tc.want)
		}
	}
}

// TestMeanOfGeneration: by hand, the better two of (0.2, cost 5), (0.4, 1), (1.2, 2) and (0.9, failed) lie
// at 0.4 and, reflected, 0.8.
func TestMeanOfGeneration(t *testing.T) {
	tuner := &baselineTuner{lower: true, space: make([]envs.Parameter, 1), points: [][]float64{{7}, {0.2}, {0.4}, {1.2}, {0.9}}}
	got := tuner.mean(1, []candidate{{Mean: 5}, {Mean: 1}, {Mean: 2}, {Error: "failed"}})
	if math.Abs(got[0]-0.6) > 1e-12 {
		t.Errorf("mean %v, want 0.6", got)
	}
}

// TestSpace maps the range of each type by hand, and reflects what is beyond.
func TestSpace(t *testing.T) {
	for _, tc := range []struct {
		p    envs.Parameter
		x    float64
		want any
	}{
		{envs.Parameter{Option: envs.Option{Type: "float"}, Low: 2, High: 4}, 0.25, 2.5},
		{envs.Parameter{Option: envs.Option{Type: "float"}, Low: 2, High: 4}, -0.25, 2.5},
		{envs.Parameter{Option: envs.Option{Type: "float"}, Low: 2, High: 4}, 1.25, 3.5},
		{envs.Parameter{Option: envs.Option{Type: "float"}, Low: 2, High: 4}, 2.25, 2.5},
		{envs.Parameter{Option: envs.Option{Type: "float"}, Low: 0.01, High: 100, Log: true}, 0.75, 10.0},
		{envs.Parameter{Option: envs.Option{Type: "float"}, Low: 0, High: 1}, 1.0 / 3, 0.3333},
		{envs.Parameter{Option: envs.Option{Type: "int"}, Low: 1, High: 9}, 0.99, 9},
		{envs.Parameter{Option: envs.Option{Type: "int"}, Low: 1, High: 9}, 1, 9},
		{envs.Parameter{Option: envs.Option{Type: "int"}, Low: 1, High: 9}, 0.12, 2}, // 9 equal parts
		{envs.Parameter{Option: envs.Option{Type: "int"}, Low: 1, High: 100, Log: true}, 0.5, 10},
		{envs.Parameter{Option: envs.Option{Type: "bool"}}, 0.6, true},
		{envs.Parameter{Option: envs.Option{Type: "string"}, Choices: []string{"a", "b", "c"}}, 0.5, "b"},
		{envs.Parameter{Option: envs.Option{Type: "string"}, Choices: []string{"a", "b", "c"}}, 1, "c"},
	} {
		if got := value(&tc.p, tc.x); got != tc.want {
			t.Errorf("%+v at %v is %v, want %v", tc.p, tc.x, got, tc.want)
		}
		tc.p.Default = tc.want
		if got := value(&tc.p, unit(&tc.p)); got != tc.want {
			t.Errorf("%+v with the default %v starts at %v", tc.p, tc.want, got)
		}
	}
}

// TestTuneBaselinePlaysSeeds plays the finalists of a search by the seeds of the validation, each in new environments: the
// search, whose candidates share beginnings of episodes and configurations, has the same values.
func TestTuneBaselinePlaysSeeds(t *testing.T) {
	const episodes = 2
	opts := map[string]any{"steps": 6}
	res := baselineResultOf(t, "tune", "--baseline", "chc", "--env", "k8s/GangWindow-v0", "--env-kwargs", "steps:6", "-n", "400",
		"--eval-episodes", strconv.Itoa(episodes), "-f", t.TempDir())
	if len(res.Finalists) < 5 {
		t.Fatalf("%d finalists, want 5 or more", len(res.Finalists))
	}
	for _, c := range res.Finalists {
		v, err := envs.Make(res.Env, validationTimes*episodes, envs.VecOptions{Options: opts, Autoreset: envs.SameStep})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		p, err := baseline.New(v, c.Baseline, 0)
		if err != nil {
			t.Fatal(err)
		}
		r, err := evaluation.Play(t.Context(), v, p, evaluation.Seeds(play.EvalSeed, validationTimes*episodes))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r.Column(v.Spec().Column("total_s")), c.Values); diff != "" {
			t.Errorf("%s (-by seeds +search):\n%s", c.Baseline, diff)
		}
	}
}

// TestBeginningsAreKept: a generation and a validation begin each episode once, and no more than one generation is kept.
func TestBeginningsAreKept(t *testing.T) {
	study := search{Baseline: "threshold", Env: "k8s/GangWindow-v0", EnvKwargs: map[string]any{"steps": 3}, Episodes: 2}
	tuner, err := newBaselineTuner(study)
	if err != nil {
		t.Fatal(err)
	}
	tuner.journal = &journal[search, candidate]{study: study}
	defer tuner.v.Close()
	for _, test := range []struct {
		first uint64
		times int
		want  []uint64
	}{
		{10, 1, []uint64{10}},
		{12, 1, []uint64{12}},
		{20, 3, []uint64{20, 22, 24}},
		{20, 3, []uint64{20, 22, 24}},
	} {
		c := candidate{Baseline: "threshold:window=2"}
		before := maps.Clone(tuner.begun)
		if err := tuner.play(t.Context(), &c, test.first, test.times); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(tuner.begun)); !slices.Equal(got, test.want) {
			t.Errorf("beginnings from %d, %d times: %v are kept, want %v", test.first, test.times, got, test.want)
		}
		for seed, e := range before {
			if now, ok := tuner.begun[seed]; ok && now != e {
				t.Errorf("the episodes from %d were begun again", seed)
			}
		}
	}
}
