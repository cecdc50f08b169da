package run

import "github.com/kubernasium/kubernasium/trainer/play"

// CurvePoints is the number of points of a learning curve.
const CurvePoints = 20

// Config holds the arguments of a training.
type Config struct {
	Algo, Env     string
	Engine        string
	NThreads      int // goroutines that share a training; 0: GOMAXPROCS, divided among concurrent trainings. It changes no result
	Params        Hyperparams
	EnvKwargs     map[string]any
	EvalEnvKwargs map[string]any
	Seed          uint64
	EvalFreq      int // environment steps between evaluations; 0: never
	EvalEpisodes  int
	SaveFreq      int // environment steps between checkpoints; 0: never
	LogFolder     string
	Resume        string
	Imitate       Imitation
	WarmStart     WarmStart
	Transitions   string   // file of recorded transitions to start from; empty: none
	Dataset       string   // Minari dataset to start from; empty: none
	URLs          []string // of servers to play on; nil plays in this process
	Quiet         bool     // no progress bar
	Scroll        bool     // print each row of the logs
	Threshold     *float64 // mean return of an evaluation at which the training stops; nil: none
	Command       string   // the user's command line, for args.yml
	Folder        string   // of this training; empty creates a new one below LogFolder
	Shared        SharedSeeds
	StopAt        int      // timesteps at which to stop before n_timesteps; 0: never
	Bar           progress // progress to report to; nil creates one
	changes       []string // options that differ from the resumed training's
}

// checkSeed returns an error for a seed whose training or imitation would play episodes of the sealed block.
func (c *Config) checkSeed() error {
	err := play.CheckSeed(c.Seed, c.Params.NEnvs)
	for round := 0; err == nil && c.Imitate.Baseline != "" && round < c.Imitate.Rounds; round++ {
		err = play.CheckSeed(c.imitationSeed(round), c.Params.NEnvs)
	}
	return err
}

// progress shows the progress of a training.
type progress interface {
	Update(step int64)
	Episode(ret float64)
	Close() error
}
