package clustertrace

import (
	"errors"
	"io"
	"math"
	"time"
)

// Never is the time of an event that did not happen during the recording. It is later than every other time.
const Never = time.Duration(math.MaxInt64)

// Trace is a recording read whole: its nodes and pods with their times. A time is
// since Header.Start, and negative for what happened before.
type Trace struct {
	Header    Header
	Templates []*Template
	Classes   map[string]PriorityClass
	Claims    []Claim           // the last of each namespace and name
	Budgets   map[string]Budget // the last of each namespace/name
	Nodes     []NodeLife
	Pods      []PodLife
	Gaps      []Span
	End       time.Duration // of the last event
}

// Span is the time from From to To.
type Span struct{ From, To time.Duration }

// NodeLife is a node from its addition to its removal.
type NodeLife struct {
	States  []NodeState // at least one; in the order of time
	Removed time.Duration
}

// Added returns when the node was first added.
func (n *NodeLife) Added() time.Duration { return n.States[0].From }

// Last returns the last state of the node.
func (n *NodeLife) Last() *Node { return n.States[len(n.States)-1].Node }

// NodeState is the state of a node from a time onward.
type NodeState struct {
	From time.Duration
	Node *Node
}

// PodLife is a pod with its times, [Never] for events that did not happen.
type PodLife struct {
	Name, UID string
	Template  int32    // when it was created
	Updates   []Update // in the order of time
	Claims    []string
	Node      int32 // that it was bound to, or -1
	Devices   []int
	Phase     Phase // of a pod that finished

	Created, Bound, Started, Finished, Deleted time.Duration
}

// Update is a change of a pod's template.
type Update struct {
	At       time.Duration
	Template int32
}

// Freed returns when the pod released what it requested: when it finished or was deleted.
func (p *PodLife) Freed() time.Duration { return min(p.Finished, p.Deleted) }

// Last returns the number of the pod's template after all updates.
func (p *PodLife) Last() int32 {
	if n := len(p.Updates); n > 0 {
		return p.Updates[n-1].Template
	}
	return p.Template
}

// Load reads a whole recording. If it is truncated, Load returns the readable part and an error that wraps [ErrCut].
func Load(path string) (*Trace, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	t, err := read(r)
	if bad := errors.Join(r.Close(), ignoreCut(err)); bad != nil {
		return nil, bad
	}
	return t, err
}

func read(r *Reader) (*Trace, error) {
	t := &Trace{Header: r.Header, Classes: map[string]PriorityClass{}, Budgets: map[string]Budget{}}
	claims := map[podName]int{}
	for {
		e, err := r.Next()
		if err != nil {
			t.Templates = r.check.templates
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return t, err
		}
		if e.Kind == AddClaim {
			name := podName{e.Claim.Namespace, e.Claim.Name}
			if i, ok := claims[name]; ok {
				t.Claims[i] = *e.Claim
			} else {
				claims[name] = len(t.Claims)
				t.Claims = append(t.Claims, *e.Claim)
			}
		}
		t.add(&e)
	}
}

// add records a checked event.
func (t *Trace) add(e *Event) {
	at := e.At - e.Ago
	switch e.Kind {
	case AddClass:
		t.Classes[e.Class.Name] = *e.Class
	case AddBudget:
		t.Budgets[e.Budget.Namespace+"/"+e.Budget.Name] = *e.Budget
	case AddNode:
		t.Nodes = append(t.Nodes, NodeLife{States: []NodeState{{at, e.Info}}, Removed: Never})
	case UpdateNode:
		n := &t.Nodes[e.Node]
		n.States = append(n.States, NodeState{at, e.Info})
	case RemoveNode:
		t.Nodes[e.Node].Removed = at
	case AddPod:
		t.Pods = append(t.Pods, PodLife{
			Name: e.Name, UID: e.UID, Template: e.Template, Claims: e.Claims, Node: -1,
			Created: at, Bound: Never, Started: Never, Finished: Never, Deleted: Never,
		})
	case UpdatePod:
		p := &t.Pods[e.Pod]
		p.Updates = append(p.Updates, Update{at, e.Template})
	case BindPod:
		p := &t.Pods[e.Pod]
		p.Node, p.Devices, p.Bound = e.Node, e.Devices, at
	case RunPod:
		t.Pods[e.Pod].Started = at
	case FinishPod:
		t.Pods[e.Pod].Finished, t.Pods[e.Pod].Phase = at, e.Phase
	case DeletePod:
		t.Pods[e.Pod].Deleted = at
	case Gap:
		t.Gaps = append(t.Gaps, Span{t.End, e.At})
	}
	t.End = e.At
}
