package vpa

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	upstream "github.com/kubernasium/kubernasium/envs/vpa/recommender"
	"github.com/kubernasium/kubernasium/envs/vpa/rules"
)

// Live applies a [Task] to the pods of a running cluster: it recommends for one container of a
// controller's pods, with the environment's own code. Each interval, [Live.Look] records the state of the pods and
// [Live.Next] returns the recommendation. [Live.Update] says what the simulator's updater would do with these pods;
// on a cluster upstream's updater acts, and tests compare the two.
//
// A cluster does not show CPU that was throttled, nor demand while a container was down; both are
// observed as 0. The history begins with the first look. There is no end: the elapsed fraction of
// the episode starts over after the option steps.
type Live struct {
	t      *Task
	base   time.Time
	at     time.Duration // of the last look, since 1970
	before time.Duration // of the look before; at the first look, its own
	looks  int
	names  int32 // indices given to pods

	replicas int
	adopted  bool
	held     int // looks since the last choice of an action
	batch    *envs.Batch
	action   []float32

	config  LiveConfig
	running rules.Running // its IDs are of the pods of t
}

// LiveConfig describes to a Live the controller and its policy.
type LiveConfig struct {
	Requests, Limits cluster.Resources // of the pods' template; 0 is none
	Min, Max         cluster.Resources // bounds of requests; 0 is that of the options
	RequestsOnly     bool              // limits stay as they are
	Containers       int               // number of containers of a pod, which share upstream's minimum recommendation

	// For Update.
	Mode          string        // one of the modes of [Options]; empty is Off
	MinReplicas   int           // minimum number of live pods to update any; default 1
	EvictAfterOOM time.Duration // 0 selects that of the options
	Requirements  []string      // of evictions, as in the options; nil selects those
}

// LivePod is the state of one container of a pod in a cluster.
type LivePod struct {
	ID               string // identifies the pod across looks
	Requests, Limits cluster.Resources
	Used             cluster.Resources
	Sampled          bool          // Used is a sample of this look
	Scheduled        bool          // it has a node
	Running          bool          // its phase
	Serving          bool          // its container is ready
	Created          time.Time     // zero: since the look before the first one with it
	Restarts         int           // of the container
	OOMKilled        bool          // the container's last end was an OOM kill
	Ran              time.Duration // how long the container ran before that end
	Resize           pods.ResizeState
	ResizeSince      time.Time // zero: since the first look with it
}

// LiveUpdate is a change of a pod by the updater.
type LiveUpdate struct {
	Pod              string // its ID
	Evict            bool   // otherwise it is resized in place
	Requests, Limits cluster.Resources
}

// NewLive returns a Live that owns a task of package vpa; the task plays no more episodes. Its
// options set how actions are encoded, held and secured. NewLive returns an error for a task of
// another package or a configuration out of range.
func NewLive(task envs.Task, c LiveConfig) (*Live, error) {
	t, ok := task.(*Task)
	if !ok {
		return nil, fmt.Errorf("vpa: a task of type %T cannot recommend for a cluster, want one of k8s/VerticalPodAutoscaler-v0", task)
	}
	if t.src.law != nil {
		return nil, errors.New("vpa: a task of k8s/VerticalPodAutoscaler-v1 cannot recommend for a cluster, want one of k8s/VerticalPodAutoscaler-v0")
	}
	src := *t.src
	src.history, src.series = 0, nil
	src.opts.Updater = pods.UpdaterUpstream
	*t = *newTask(&src) // in place, since policies of baselines hold the pointer
	t.dynamics.Pods = nil
	l := &Live{t: t}
	t.live = l
	obs, act := t.Spaces()
	l.batch = &envs.Batch{
		Obs: make([]float32, obs.Size()), Mask: make([]bool, space.MaskSize(act)), Info: make([]float64, len(infoColumns)),
		Reward: make([]float64, 1), Terminated: make([]bool, 1), Truncated: make([]bool, 1), Invalid: make([]bool, 1),
		EpisodeReturn: make([]float64, 1), EpisodeLength: make([]int64, 1),
	}
	l.action = make([]float32, act.Size())
	return l, l.Configure(c)
}

// Configure updates the controller and its policy.
func (l *Live) Configure(c LiveConfig) error {
	c.Mode, c.MinReplicas = cmp.Or(c.Mode, pods.ModeOff), cmp.Or(c.MinReplicas, 1)
	if !slices.Contains([]string{pods.ModeOff, pods.ModeInitial, pods.ModeRecreate, pods.ModeInPlaceOrRecreate, pods.ModeInPlace}, c.Mode) {
		return fmt.Errorf("vpa: mode %q, want Off, Initial, Recreate, InPlaceOrRecreate or InPlace", c.Mode)
	}
	if c.MinReplicas < 1 || c.Containers < 1 {
		return fmt.Errorf("vpa: min replicas %d and %d containers, want at least 1 of each", c.MinReplicas, c.Containers)
	}
	t := l.t
	texts := t.opts.Requirements
	if c.Requirements != nil {
		texts = c.Requirements
	}
	requirements, err := pods.ParseRequirements(texts)
	if err != nil {
		return err
	}
	low, high := t.opts.Bounds()
	for _, v := range []struct {
		name                  string
		min, max, low, high   int64
		request, limit        int64
		setLow, setHigh, setR *int64
	}{
		{"CPU", c.Min.MilliCPU, c.Max.MilliCPU, low.MilliCPU, high.MilliCPU, c.Requests.MilliCPU, c.Limits.MilliCPU, &low.MilliCPU, &high.MilliCPU, &c.Requests.MilliCPU},
		{"memory", c.Min.MemoryBytes, c.Max.MemoryBytes, low.MemoryBytes, high.MemoryBytes, c.Requests.MemoryBytes, c.Limits.MemoryBytes, &low.MemoryBytes, &high.MemoryBytes, &c.Requests.MemoryBytes},
	} {
		if v.min > 0 {
			*v.setLow, *v.setHigh = v.min, max(v.high, v.min)
		}
		if v.max > 0 {
			if v.max < v.min {
				return fmt.Errorf("vpa: %s from %d to %d, want the least first", v.name, v.min, v.max)
			}
			*v.setHigh, *v.setLow = v.max, min(*v.setLow, v.max)
		}
		if v.request == 0 {
			*v.setR = v.limit // as the API server defaults it
		}
	}
	t.admission.Low, t.admission.High, t.updater.Requirements = low, high, requirements
	t.opts.Mode, t.opts.MinReplicas = c.Mode, c.MinReplicas
	t.opts.Controlled = pods.RequestsAndLimits
	if c.RequestsOnly {
		t.opts.Controlled = pods.RequestsOnly
	}
	if c.EvictAfterOOM > 0 {
		t.updater.EvictAfterOOM = c.EvictAfterOOM
	}
	t.admission.Initial, t.admission.Limits = c.Requests, c.Limits
	l.config, l.running.Containers = c, c.Containers
	return nil
}

// Adopt sets the recommendation in force before the first Look, for example the last one before a restart, and returns
// it within the bounds. Without Adopt, the requests of the template are in force.
func (l *Live) Adopt(r pods.Recommendation) pods.Recommendation {
	l.t.admission.Cap(&r)
	l.t.rec, l.adopted = r, true
	return r
}

// Restore resumes upstream's recommender, if it is used, from a checkpoint. It returns an error after
// the first Look.
func (l *Live) Restore(c *upstream.Checkpoint) error {
	if l.looks > 0 {
		return errors.New("vpa: a checkpoint is restored before the first look")
	}
	return l.running.Restore(c)
}

// Recall gives upstream's recommender, if it is used, samples from before the first Look, for each pod in the order of
// time. It returns an error after the first Look.
func (l *Live) Recall(samples []rules.Sample) error {
	if l.looks > 0 {
		return errors.New("vpa: samples are recalled before the first look")
	}
	l.running.Recall(samples)
	return nil
}

// Checkpoint returns the state of upstream's recommender, or nil if it is not used.
func (l *Live) Checkpoint() *upstream.Checkpoint { return l.running.Checkpoint(l.at) }

// Task returns the task, for policies of baselines. It holds no future for clairvoyant ones.
func (l *Live) Task() envs.Task { return l.t }

// A Policy chooses actions for a batch of one environment, as a policy of package agents does.
type Policy interface {
	Act(b *envs.Batch, actions []float32) error
}

// Next returns the recommendation after a Look: repaired, capped and in force. If an action holds for several steps,
// Next asks the policy only at the first of them.
func (l *Live) Next(p Policy) (pods.Recommendation, error) {
	t := l.t
	if l.looks == 0 {
		return pods.Recommendation{}, errors.New("vpa: a recommendation before the first look")
	}
	if l.held == 0 {
		t.Observe(nil, l.batch.Obs, l.batch.Mask)
		if err := p.Act(l.batch, l.action); err != nil {
			return pods.Recommendation{}, err
		}
		l.batch.EpisodeLength[0]++
	}
	t.decide(context.Background(), l.action, l.held)
	if l.held++; l.held == t.opts.Hold {
		l.held, t.plan.follow = 0, nil
	}
	return t.rec, nil
}

// Observation returns the policy's last observation; the caller must not change it.
func (l *Live) Observation() []float32 { return l.batch.Obs }

// Limits returns the limits of a new pod that requests the target in force.
func (l *Live) Limits() cluster.Resources { return l.t.admission.LimitsFor(&l.t.rec) }

// Update runs one loop of the updater. It calls do for each pod to be changed, in the updater's order
// and within its budget. If the API refuses a resize, Update evicts the pod, unless the mode permits
// no eviction. The first error of do ends the loop.
func (l *Live) Update(do func(LiveUpdate) (refused bool, err error)) error {
	t, admitted := l.t, l.t.admission.Admit(l.t.rec)
	return t.updater.Update(t.dynamics.Pods, l.replicas, &admitted, l.now(), func(i int, evict bool) error {
		change := LiveUpdate{Pod: l.running.IDs[i], Evict: evict, Requests: admitted.Target, Limits: admitted.Limits}
		refused, err := do(change)
		if err == nil && refused && !evict && t.opts.Mode == pods.ModeInPlaceOrRecreate {
			change.Evict = true
			_, err = do(change)
		}
		return err
	})
}
