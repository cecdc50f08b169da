package world

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// Values of the options.
const (
	SplitTrain   = "train"
	SplitHeldOut = "heldout"

	OrderApps     = "apps"     // all containers of the first application, then all of the second
	OrderShuffled = "shuffled" // in random order

	ArrivalsBatch  = "batch"  // all containers exist at once, and stay
	ArrivalsOnline = "online" // containers come and go

	RewardDense    = "dense"
	RewardTerminal = "terminal"
	RewardGap      = "gap" // online: dense, less what the same containers earn at the linear bound
)

// Options are the options of placing containers one by one, with the defaults of [DefaultOptions]. The environments of
// this family have all or some of them.
type Options struct {
	Table          string `opt:"table,file" doc:"CSV file of the node table that planners and observations know; empty generates one"`
	Instances      `opt:",squash"`
	Nodes          int      `opt:"nodes" valid:"1,100000" doc:"number of nodes"`
	Containers     int      `opt:"containers" valid:"1,1e6" doc:"containers of a drawn batch; with online arrivals, placements of an episode"`
	MinContainers  int      `opt:"min_containers" valid:"0,1e6" doc:"fewest containers of a drawn batch, where its size is drawn too; 0 is containers"`
	Order          string   `opt:"order" valid:"apps|shuffled" doc:"apps or shuffled: the order in which a batch is placed"`
	Arrivals       string   `opt:"arrivals" valid:"batch|online" doc:"batch, or online: containers come and go"`
	Load           float64  `opt:"load" valid:"0.01,1" doc:"share of the slots that is in use on average with online arrivals"`
	Classes        []string `opt:"classes" doc:"kinds of nodes as share:slots:speed, such as 0.5:8:1; empty is nodes of 8 slots as profiled"`
	Spread         int      `opt:"spread" valid:"0,8" doc:"most containers of one application on a node; 0 is no limit"`
	Restrict       []string `opt:"restrict" doc:"applications that only a random share of the nodes is meant for, as application:share, such as isr:0.5"`
	SoftViolations float64  `opt:"soft_violations" valid:"0,1" doc:"share of the containers that may stand on nodes not meant for them"`
	Goal           `opt:",squash"`
	Reward         string `opt:"reward" valid:"dense|terminal|gap" doc:"dense; terminal: all at the end of the episode; or gap, with online arrivals: dense, less what the running containers are worth by the linear bound of the mean mix"`
}

// Instances are the options that select the instances.
type Instances struct {
	ScoreTable string `opt:"score_table,file" doc:"CSV file of the node table that rewards are by; empty is table"`
	TableSeed  int    `opt:"table_seed" valid:"0,9007199254740992" doc:"random seed of the generated table; 0 is the law as fitted to the published profile"`
	Batches    string `opt:"batches,file" doc:"CSV file of batches; empty draws batches of equally likely applications"`
	Batch      int    `opt:"batch" valid:"-1,1e6" doc:"row of batches that every episode plays; -1 draws a row of the split"`
	Split      string `opt:"split" valid:"train|heldout" doc:"train, or heldout: rows 0 to 29 of batches, which the published comparisons use, or drawn batches that training does not see"`
}

// Goal are the options of the objective.
type Goal struct {
	Objective    string  `opt:"objective" valid:"throughput|slo|vacant" doc:"throughput, slo (containers with at least slo_threshold) or vacant (throughput and vacant nodes)"`
	SLOThreshold float64 `opt:"slo_threshold" valid:"0,100" doc:"throughput, as a multiple of that alone on a node, that satisfies a container"`
	Beta         float64 `opt:"beta" valid:"0,100" doc:"worth of a cluster of vacant nodes in the objective vacant, in throughputs of a container"`
}

// DefaultOptions returns the defaults: a batch of 200 containers on 81 nodes.
func DefaultOptions() Options {
	return Options{
		Instances: Instances{Batch: -1, Split: SplitTrain}, Nodes: 81, Containers: 200, Order: OrderApps, Arrivals: ArrivalsBatch, Load: 0.85,
		Goal: Goal{Objective: planner.ObjectiveThroughput, SLOThreshold: 0.9, Beta: 1}, Reward: RewardDense,
	}
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{envs.ErrInvalidOption}, args...)...)
}

// check checks each option, and combinations of options.
func (o *Options) check() error {
	if err := envs.CheckOptions(o); err != nil {
		return err
	}
	online := o.Arrivals == ArrivalsOnline
	switch {
	case online && (o.Batches != "" || o.Batch >= 0):
		return invalid("batches and batch are of batch arrivals only")
	case !online && o.Reward == RewardGap:
		return invalid("reward gap is of online arrivals only")
	case o.MinContainers > o.Containers || o.MinContainers > 0 && (online || o.Batches != "" || o.Objective == planner.ObjectiveVacant):
		return invalid("min_containers is %d, want at most containers, %d, of drawn batches, whose objective is not vacant", o.MinContainers, o.Containers)
	case o.Batches == "" && o.Batch >= 0:
		return invalid("batch %d needs batches, the file whose row it is", o.Batch)
	case o.SoftViolations > 0 && len(o.Restrict) == 0:
		return invalid("soft_violations needs restrict, whose violations they are")
	}
	return nil
}

// classes returns the kinds of nodes and the kind of each node, in blocks.
func (o *Options) classes() (kinds []planner.Class, of []int, err error) {
	standard := planner.StandardClass
	standard.Spread = o.Spread
	if len(o.Classes) == 0 {
		return []planner.Class{standard}, make([]int, o.Nodes), nil
	}
	if len(o.Classes) > 8 {
		return nil, nil, invalid("%d classes, want at most 8", len(o.Classes))
	}
	sum, end := 0.0, 0
	for i, text := range o.Classes {
		fields := strings.Split(text, ":")
		if len(fields) != 3 {
			return nil, nil, invalid("class %q, want share:slots:speed", text)
		}
		share, err1 := strconv.ParseFloat(fields[0], 64)
		slots, err2 := strconv.Atoi(fields[1])
		speed, err3 := strconv.ParseFloat(fields[2], 64)
		if err1 != nil || err2 != nil || err3 != nil || !(share > 0 && share <= 1) || slots < 1 || slots > lra.MaxSlots || !(speed >= 0.01 && speed <= 100) {
			return nil, nil, invalid("class %q, want a share above 0 and up to 1, 1 to %d slots and a speed from 0.01 to 100", text, lra.MaxSlots)
		}
		kinds = append(kinds, planner.Class{Slots: slots, Speed: speed, Spread: o.Spread})
		sum += share
		end = int(math.Round(sum * float64(o.Nodes)))
		for len(of) < min(end, o.Nodes) {
			of = append(of, i)
		}
	}
	if math.Abs(sum-1) > 1e-6 {
		return nil, nil, invalid("the shares of the classes add up to %v, want 1", sum)
	}
	return kinds, of, nil
}

// restricted is an application that only some of the nodes are meant for.
type restricted struct {
	app   int
	nodes int // nodes that are meant for it
}

// maxRestricted is the maximum number of applications of the option restrict: each doubles the number of kinds of
// nodes.
const maxRestricted = 3

func (o *Options) restrictions() ([]restricted, error) {
	if len(o.Restrict) > maxRestricted {
		return nil, invalid("restrict has %d applications, want at most %d", len(o.Restrict), maxRestricted)
	}
	var all []restricted
	for _, text := range o.Restrict {
		name, part, _ := strings.Cut(text, ":")
		app := slices.Index(lra.Apps[:], name)
		share, err := strconv.ParseFloat(part, 64)
		if app < 0 || err != nil || !(share > 0 && share <= 1) {
			return nil, invalid("restrict %q, want application:share with an application of %v and a share above 0 and up to 1", text, lra.Apps)
		}
		if slices.ContainsFunc(all, func(r restricted) bool { return r.app == app }) {
			return nil, invalid("restrict has %s twice", name)
		}
		all = append(all, restricted{app, max(1, int(math.Round(share*float64(o.Nodes))))})
	}
	return all, nil
}
