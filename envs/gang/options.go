package gang

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
	"github.com/kubernasium/kubernasium/envs/gang/series"
)

// Values of the options of [Options].
const (
	DynamicsSound      = "sound"
	DynamicsCompatible = "compatible"

	SplitTrain      = "train"
	SplitFit        = "fit" // the rows of train without those of validation
	SplitValidation = "validation"
	SplitHeldOut    = "heldout"

	PenaltyConstant = "constant" // a reconfiguration re-creates every task
	PenaltyPerTask  = "per_task" // … only those whose shares change, each at its part of the penalty
	PenaltyResize   = "resize"   // … none: tasks are resized in place
)

// Options are the options of k8s/GangWindow-v0, with the defaults of [DefaultOptions].
type Options struct {
	Dynamics      string   `opt:"dynamics" valid:"sound|compatible" doc:"sound, or compatible with Kube_Gang_Scheduling"`
	Data          string   `opt:"data,file" doc:"folder with profile, series and forecasts; empty generates instances"`
	Profile       string   `opt:"profile,file" doc:"file of the profile, in place of the one in data or of the generated one"`
	Series        []string `opt:"series" doc:"names of the series in data; empty takes all that the source uses, or else all there are"`
	Split         string   `opt:"split" valid:"train|fit|validation|heldout" doc:"train; validation, the last part of the training's rows; fit, those before it; or heldout: the part of each series that no training sees"`
	Forecaster    string   `opt:"forecaster" valid:"|seasonal|weekly|persistence|perfect|file" doc:"what the planner sees: seasonal, weekly (which also repeats weeks that the training part has just two of, as half-hourly generated series do), persistence, perfect or file; empty is seasonal, in compatible dynamics file"`
	Windows       int      `opt:"windows" valid:"1,20" doc:"longest window that an action plans for, 1 to 20"`
	Horizon       int      `opt:"horizon" valid:"1,20" doc:"predicted supersteps in an observation, 1 to 20"`
	Steps         int      `opt:"steps" valid:"1,1e6" doc:"supersteps of an episode"`
	First         int      `opt:"first" valid:"0,1e6" doc:"step of the forecasts at which a compatible episode begins"`
	TotalCPU      int      `opt:"total_cpu_m" valid:"1,1e9" doc:"millicores that a configuration divides among the tasks"`
	StartCPU      int      `opt:"start_cpu_m" doc:"millicores of each task at the start, and at least"`
	IncrementCPU  int      `opt:"increment_cpu_m" doc:"millicores by which shares differ"`
	SizeLow       float64  `opt:"size_low" valid:"0,1e9" doc:"workload size of the least value of a series in its training part"`
	SizeHigh      float64  `opt:"size_high" doc:"workload size of the greatest"`
	PenaltyModel  string   `opt:"penalty_model" valid:"constant|per_task|resize" doc:"constant, per_task or resize"`
	Penalty       float64  `opt:"penalty" valid:"0,1e6" doc:"seconds that re-creating all tasks costs"`
	ResizeSeconds float64  `opt:"resize_seconds" valid:"0,1e6" doc:"seconds for each task that is resized in place"`
	Noise         float64  `opt:"noise" valid:"0,10" doc:"scale of the lognormal noise of true durations; 1 is the profile's residuals"`
	StragglerProb float64  `opt:"straggler_prob" valid:"0,1" doc:"probability that a task straggles in a superstep by the worst residual of its profile"`
	ScaleError    float64  `opt:"scale_error" doc:"spread of the errors of the profile that planners and observations see: of the logarithm of each task's durations" valid:"0,2"`
	ExponentError float64  `opt:"exponent_error" doc:"… of the exponent of each task's shares" valid:"0,2"`
	DurationLow   float64  `opt:"duration_low" valid:"0,1e6" doc:"seconds that are 0 in an observation; both 0 is 50 and 250, in compatible dynamics 75 and 150"`
	DurationHigh  float64  `opt:"duration_high" doc:"seconds that are 1 in an observation"`
	Instances     int      `opt:"instances" valid:"0,1e6" doc:"number of prepared instances that episodes draw from; 0 draws a new one for each episode"`
	ProfileSeed   int      `opt:"profile_seed" valid:"0,9007199254740992" doc:"random seed of the generated profile"`
}

// DefaultOptions returns the defaults.
func DefaultOptions() Options {
	m := profile.DefaultModelConfig()
	return Options{
		Dynamics: DynamicsSound, Split: SplitTrain, Windows: 3, Horizon: 6, Steps: 400, First: 200,
		TotalCPU: m.TotalMilliCPU, StartCPU: m.StartMilliCPU, IncrementCPU: m.IncrementMilliCPU, SizeLow: series.MinSize, SizeHigh: series.MaxSize,
		PenaltyModel: PenaltyConstant, Penalty: planner.DefaultPenalty, ResizeSeconds: 1,
	}
}

// complete checks the options and sets those whose default depends on others.
func (o *Options) complete() error {
	compatible := o.Dynamics == DynamicsCompatible
	if o.Forecaster == "" {
		o.Forecaster = series.Seasonal
		if compatible {
			o.Forecaster = series.FromFile
		}
	}
	if o.DurationLow == 0 && o.DurationHigh == 0 {
		o.DurationLow, o.DurationHigh = 50, 250
		if compatible {
			o.DurationLow, o.DurationHigh = 75, 150
		}
	}
	if err := envs.CheckOptions(o,
		envs.Between("start_cpu_m", o.StartCPU, 1, o.TotalCPU),
		envs.Between("increment_cpu_m", o.IncrementCPU, 1, o.TotalCPU),
		envs.Between("size_high", o.SizeHigh, above(o.SizeLow), 1e9),
		envs.Between("duration_high", o.DurationHigh, above(o.DurationLow), 1e6),
	); err != nil {
		return err
	}
	switch {
	case compatible && o.Data == "":
		return fmt.Errorf("%w: compatible dynamics need data, the folder of the source's files", envs.ErrInvalidOption)
	case compatible && o.Forecaster != series.FromFile && o.Forecaster != series.Perfect:
		return fmt.Errorf("%w: forecaster %q with compatible dynamics, want file or perfect", envs.ErrInvalidOption, o.Forecaster)
	case !compatible && o.Forecaster == series.FromFile && (o.Data == "" || o.Split != SplitHeldOut):
		return fmt.Errorf("%w: forecaster file needs data and the heldout split, the only steps with published forecasts", envs.ErrInvalidOption)
	case compatible && (o.modelConfig() != profile.DefaultModelConfig() || o.SizeLow != series.MinSize):
		return fmt.Errorf("%w: total_cpu_m, start_cpu_m, increment_cpu_m, size_low and size_high are of the sound dynamics only", envs.ErrInvalidOption)
	case compatible && (o.Noise != 0 || o.ScaleError != 0 || o.ExponentError != 0 || o.StragglerProb != 0 || o.PenaltyModel != PenaltyConstant || o.Instances != 0 || o.Profile != "" || len(o.Series) > 0):
		return fmt.Errorf("%w: noise, scale_error, exponent_error, straggler_prob, penalty_model, instances, profile and series are of the sound dynamics only", envs.ErrInvalidOption)
	}
	return nil
}

// above returns the least number above x.
func above(x float64) float64 { return math.Nextafter(x, math.Inf(1)) }

// modelConfig returns how to divide the cores. The assumptions of EXPPO's static configuration keep their proportion:
// sizes in the middle of their range, and at most a third of the cores for a task.
func (o *Options) modelConfig() profile.ModelConfig {
	m := profile.DefaultModelConfig()
	m.TotalMilliCPU, m.StartMilliCPU, m.IncrementMilliCPU = o.TotalCPU, o.StartCPU, o.IncrementCPU
	m.StaticMaxMilliCPU = max(o.TotalCPU/3, o.StartCPU)
	m.StaticSize = (o.SizeLow + o.SizeHigh) / 2
	return m
}

// columns returns how many supersteps a trace must predict: for the actions, for the
// observation, and for the planners among the baselines.
func (o *Options) columns() int { return max(o.Windows, o.Horizon, planner.DefaultHorizon) }
