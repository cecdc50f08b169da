// Package cluster models a Kubernetes cluster as an agent sees it: nodes, pods and a clock.
//
// [State] holds the cluster and the rules by which it may change. A [Cluster] is a backend
// that carries out an [Op], which is plain data: package sim in memory, package kwok through
// a Kubernetes API server. Both apply State's rules, so that equal ops give equal states;
// package clustertest checks that they do.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Cluster is the world that a task acts on. It is not safe for concurrent use. After an error that
// wraps none of the sentinels below, the cluster must be Reset.
type Cluster interface {
	// Reset removes every pod and node and sets the clock to zero. It keeps the entries of
	// [State.Intern].
	Reset(ctx context.Context) error

	// Apply carries out ops in order, at the current time, and stops at the first that is not
	// legal. It then returns an [*OpError], and the ops before that one stay applied.
	Apply(ctx context.Context, ops []Op) error

	// Advance moves the clock forward by d and completes each running pod whose duration ends
	// within it, in the order of time, then of index. If d is negative or leads past
	// [MaxTime], it changes nothing and returns an error that wraps [ErrInvalid].
	Advance(ctx context.Context, d time.Duration) error

	// State returns the current state of the cluster. The caller may change it only by
	// [State.Intern]. It is valid until the next call of another method.
	State() *State

	io.Closer
}

// OpKind is the kind of an [Op].
type OpKind uint8

// The kinds of ops. The fields of [Op] that a kind reads stand beside it; Pod and Node are
// indices into State.Pods and State.Nodes.
const (
	AddNode    OpKind = iota + 1 // Meta, Resources (allocatable), MaxPods, GPUs, MilliGPU: appends a node
	Cordon                       // Node: no pod may be bound to it until Uncordon; legal if it is cordoned already
	Uncordon                     // Node; legal if it is not cordoned
	RemoveNode                   // Node: fails its running pods; the index stays, with the node gone
	AddPod                       // Meta, Resources (requests), Limits, GPUs, MilliGPU, Duration: appends a pending pod
	Bind                         // Pod, Node, Devices: starts a pending pod
	Evict                        // Pod: fails a running pod, as the eviction API does
	Delete                       // Pod: removes a pod in any phase; the index stays, with the pod gone
	Resize                       // Pod, Resources (requests), Limits: changes a pending or running pod in place
	SetUsage                     // Pod, Resources (usage): records what a running pod uses
)

// Op is one change to a cluster, as plain data: a sequence of ops can be logged, compared and
// replayed. Names and labels stand in the tables of the State, where [State.Intern] enters them.
type Op struct {
	Kind      OpKind
	GPUs      uint8 // number of GPU devices: of the node, or wanted by the pod
	Pod, Node int32
	Meta      int32  // index in the table of metadata
	MilliGPU  int32  // thousandths of a device, 1 to 1000: the capacity of each, or wanted of each
	MaxPods   int32  // most pods that the node runs; 0 is no limit
	Devices   uint64 // bit i: the pod takes its share of device i of the node
	Resources Resources
	Limits    Resources     // 0 is no limit
	Duration  time.Duration // how long the pod runs once bound; 0 runs for ever
}

// Resources is an amount of each divisible resource, in the units of kube-scheduler.
type Resources struct {
	MilliCPU    int64 // thousandths of a core
	MemoryBytes int64
}

// Plus returns the sum of r and o.
func (r Resources) Plus(o Resources) Resources {
	return Resources{r.MilliCPU + o.MilliCPU, r.MemoryBytes + o.MemoryBytes}
}

// Sentinels of illegal ops. [State.Check] wraps them with the reason, and Cluster.Apply wraps that
// in an [*OpError].
var (
	// ErrNotFound: the op names a pod, node or metadata that does not exist.
	ErrNotFound = errors.New("cluster: not found")
	// ErrConflict: the pod or node is not in the phase that the op needs, or a name is taken.
	ErrConflict = errors.New("cluster: conflict")
	// ErrInsufficient: the pod does not fit: resources, devices, or the number of pods.
	ErrInsufficient = errors.New("cluster: insufficient resources")
	// ErrUnschedulable: taints, cordon or the pod's node selector keep the pod off the node.
	ErrUnschedulable = errors.New("cluster: node not permitted")
	// ErrInvalid: a field of the op is out of its range.
	ErrInvalid = errors.New("cluster: invalid op")
)

// ErrUnavailable means that a backend cannot reach its API server; errors of the backend wrap it. When the server is
// back, Reset recovers. It marks no illegal op: how many ops were applied is unknown.
var ErrUnavailable = errors.New("cluster: unavailable")

// OpError is the failure of one op of those given to Apply.
type OpError struct {
	Index int // of the op among those given
	Op    Op
	Err   error // wraps one of the sentinels and says what was given
}

func (e *OpError) Error() string { return fmt.Sprintf("op %d (%v): %v", e.Index, e.Op, e.Err) }

// Unwrap returns the cause, for errors.Is.
func (e *OpError) Unwrap() error { return e.Err }
