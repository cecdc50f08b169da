package dqn

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// sb3Run is a training that testdata/sb3_run.py wrote.
type sb3Run struct {
	NEnvs                int `json:"n_envs"`
	Timesteps            int
	Init, Params, Target []float32
	Steps                []sb3Step
	Trainings            []sb3Training
}

// sb3Step is a step of the vector of environments. Next is before an autoreset.
type sb3Step struct {
	Eps                   float64
	Obs                   []float32
	Next                  []float32 `json:"next_obs"`
	Action                []float32
	Reward                []float64
	Terminated, Truncated []bool
}

// sb3Training is a call of train.
type sb3Training struct {
	Timestep   int
	Batches    [][][2]int // of each gradient step, the transitions as step and environment
	Loss, Rate float64
}

// TestWholeTrainingAgainstStableBaselines3 takes over what was random in a training of
// Stable-Baselines3 2.9.2 (first parameters, actions, the environments' answers, the transitions
// that were sampled) and compares all the rest: ε of every step, when there are how many gradient
// steps, their losses and rates, and the parameters of both networks at the end.
func TestWholeTrainingAgainstStableBaselines3(t *testing.T) {
	runs := agentstest.SB3Cases[sb3Run](t, "testdata/sb3_run.json")
	for name, configure := range map[string]func(*Config){
		"one environment":           func(*Config) {},
		"two environments":          func(*Config) {},
		"soft target, falling rate": func(c *Config) { c.LearningRate.Linear, c.Tau, c.MaxGradNorm = true, 0.5, 0.5 },
		"as many gradient steps as transitions": func(c *Config) {
			c.LearningRate, c.GradientSteps, c.TrainFreq = agents.Constant(0.01), -1, 4
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Defaults()
			cfg.LearningRate, cfg.BatchSize, cfg.LearningStarts = agents.Constant(0.02), 8, 30
			cfg.TrainFreq, cfg.GradientSteps, cfg.TargetUpdateInterval = 16, 8, 10
			cfg.ExplorationFraction, cfg.ExplorationFinalEps = 0.5, 0.1
			cfg.BufferSize, cfg.Gamma, cfg.NetArch, cfg.TotalTimesteps = 1000, 0.9, []int{6}, 100
			configure(&cfg)
			replaySB3(t, cfg, runs[name])
		})
	}
}

func replaySB3(t *testing.T, cfg Config, run sb3Run) {
	n := run.NEnvs
	env := agents.EnvInfo{ID: "classic/CartPole-v1", Obs: space.NewBox(-10, 10, 4), Act: space.Discrete{N: 2}, NumEnvs: n}
	l, err := New(cfg, env, func(spec models.Spec) (models.Network, error) { return fused.New(spec, nil) }, 1)
	if err != nil {
		t.Fatal(err)
	}
	first := run.Init
	for i, p := range l.nets.Params {
		first = first[copy(p.Value, first):]
		copy(l.nets.TargetParams[i].Value, p.Value)
	}
	var trainings []sb3Training
	l.sample = func(float64) { // from the recording, not from the buffer
		k := l.counts.NUpdates
		for _, done := range run.Trainings {
			if k < len(done.Batches) {
				fillFrom(l, run.Steps, done.Batches[k])
				return
			}
			k -= len(done.Batches)
		}
		t.Fatalf("%d gradient steps at timestep %d are more than there were", l.counts.NUpdates+1, l.counts.Timesteps)
	}
	b, actions, fresh := agentstest.BatchOf(2, make([]float32, n)...), make([]float32, n), agentstest.BatchOf(2, make([]float32, n)...)
	fresh.FinalObs = make([]float32, 4*n)
	for k, step := range run.Steps {
		b.Obs = step.Obs
		eps := cfg.explorationRate(l.progressRemaining())
		if l.counts.Timesteps < cfg.LearningStarts {
			eps = 1
		}
		if math.Abs(eps-step.Eps) > 1e-7 {
			t.Fatalf("step %d: ε = %v, want %v", k, eps, step.Eps)
		}
		if err := l.Act(b, actions); err != nil {
			t.Fatal(err)
		}
		copy(l.actions, step.Action)
		fresh.Reward, fresh.Terminated, fresh.Truncated = step.Reward, step.Terminated, step.Truncated
		copy(fresh.FinalObs, step.Next)
		fresh.Obs = step.Next
		if k+1 < len(run.Steps) {
			fresh.Obs = run.Steps[k+1].Obs
		}
		if err := l.Observe(fresh); err != nil {
			t.Fatal(err)
		}
		before := l.counts.NUpdates
		m, err := l.Update()
		if err != nil {
			t.Fatal(err)
		}
		if m != nil {
			trainings = append(trainings, sb3Training{
				l.counts.Timesteps, make([][][2]int, l.counts.NUpdates-before), m["train/loss"], m["train/learning_rate"],
			})
		}
	}
	for i := range run.Trainings {
		run.Trainings[i].Batches = make([][][2]int, len(run.Trainings[i].Batches))
	}
	if diff := cmp.Diff(run.Trainings, trainings, cmpopts.EquateApprox(1e-4, 1e-6)); diff != "" {
		t.Errorf("trainings (-want +got):\n%s", diff)
	}
	if l.NumTimesteps() != run.Timesteps {
		t.Errorf("%d timesteps, want %d", l.NumTimesteps(), run.Timesteps)
	}
	params, target := agentstest.Flat(l.nets.Params), agentstest.Flat(l.nets.TargetParams)
	if diff := cmp.Diff([][]float32{run.Params, run.Target}, [][]float32{params, target}, cmpopts.EquateApprox(1e-3, 1e-5)); diff != "" {
		t.Errorf("parameters and target (-want +got):\n%s", diff)
	}
	checkBuffer(t, l, run.Steps)
}

// fillFrom makes the learner's batch of recorded transitions.
func fillFrom(l *Learner, steps []sb3Step, rows [][2]int) {
	for i, row := range rows {
		s, e, b := &steps[row[0]], row[1], l.batch
		copy(b.Obs[4*i:4*i+4], s.Obs[4*e:])
		copy(b.NextObs[4*i:4*i+4], s.Next[4*e:])
		b.Action[i], b.Return[i], b.Discount[i], b.Weight[i] = s.Action[e], float32(s.Reward[e]), float32(l.cfg.Gamma), 1
		if s.Terminated[e] {
			b.Discount[i] = 0
		}
		b.NextMask[2*i], b.NextMask[2*i+1] = true, true
	}
}

// checkBuffer sees that the replay buffer holds the recorded transitions and no others.
func checkBuffer(t *testing.T, l *Learner, steps []sb3Step) {
	t.Helper()
	type transition struct {
		obs, next        [4]float32
		action, ret, dis float32
	}
	want, got := map[transition]bool{}, map[transition]bool{}
	read := func(into map[transition]bool) {
		b := l.batch
		for i := range b.Action {
			x := transition{obs: [4]float32(b.Obs[4*i:]), action: b.Action[i], ret: b.Return[i], dis: b.Discount[i]}
			if x.dis != 0 {
				x.next = [4]float32(b.NextObs[4*i:])
			}
			into[x] = true
		}
	}
	for k := range steps {
		for e := range len(l.actions) {
			rows := make([][2]int, len(l.batch.Action))
			for i := range rows {
				rows[i] = [2]int{k, e}
			}
			fillFrom(l, steps, rows)
			read(want)
		}
	}
	for range 1000 {
		l.buf.Sample(l.rng, 1, l.batch)
		read(got)
	}
	if diff := cmp.Diff(want, got); diff != "" || l.buf.Len() != len(want) {
		t.Errorf("replay buffer of %d (-want +got):\n%s", l.buf.Len(), diff)
	}
}
