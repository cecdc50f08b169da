package clustertrace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
)

// line is the JSON of an [Event]. It omits numbers that are 0.
type line struct {
	Kind     Kind     `json:"k"`
	After    int64    `json:"t,omitempty"` // milliseconds since the previous event
	Ago      int64    `json:"ago,omitempty"`
	Pod      int32    `json:"p,omitempty"`
	Node     int32    `json:"n,omitempty"`
	Template int32    `json:"tpl,omitempty"`
	Name     string   `json:"name,omitempty"`
	UID      string   `json:"uid,omitempty"`
	Claims   []string `json:"claims,omitempty"`
	Devices  []int    `json:"gpus,omitempty"`
	Phase    Phase    `json:"phase,omitempty"`

	Preempted bool `json:"preempted,omitempty"`

	Spec  *Template      `json:"template,omitempty"`
	Info  *Node          `json:"node,omitempty"`
	Class *PriorityClass `json:"priority_class,omitempty"`
	Claim *Claim         `json:"claim,omitempty"`

	Budget *Budget `json:"budget,omitempty"`
}

// lineOf returns the line of an event whose predecessor was at the time before.
func lineOf(e *Event, before time.Duration) line {
	l := line{
		Kind: e.Kind, After: (e.At - before).Milliseconds(), Ago: e.Ago.Milliseconds(),
		Spec: e.Spec, Info: e.Info, Class: e.Class, Claim: e.Claim, Budget: e.Budget,
	}
	switch e.Kind {
	case AddPod: // its number is implied, as those of nodes and templates are
		l.Template, l.Name, l.UID, l.Claims = e.Template, e.Name, e.UID, e.Claims
	case UpdatePod:
		l.Pod, l.Template = e.Pod, e.Template
	case BindPod:
		l.Pod, l.Node, l.Devices = e.Pod, e.Node, e.Devices
	case FinishPod:
		l.Pod, l.Phase, l.Preempted = e.Pod, e.Phase, e.Preempted
	case DeletePod:
		l.Pod, l.Preempted = e.Pod, e.Preempted
	case RunPod:
		l.Pod = e.Pod
	case UpdateNode, RemoveNode:
		l.Node = e.Node
	}
	return l
}

// event returns the event of the line.
func (l *line) event(before time.Duration) Event {
	return Event{
		Kind: l.Kind, At: before + time.Duration(l.After)*time.Millisecond, Ago: time.Duration(l.Ago) * time.Millisecond,
		Pod: l.Pod, Node: l.Node, Template: l.Template, Name: l.Name, UID: l.UID, Claims: l.Claims, Devices: l.Devices, Phase: l.Phase,
		Preempted: l.Preempted, Spec: l.Spec, Info: l.Info, Class: l.Class, Claim: l.Claim, Budget: l.Budget,
	}
}

// errKind reports a value of another kind than its field.
var errKind = errors.New("a value of another kind is expected")

// decode reads the one JSON value of text into v, and rejects fields that v does not have.
func decode(text []byte, v any) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("empty line")
	}
	err := json.Unmarshal(text, v, json.RejectUnknownMembers(true))
	if bad, ok := errors.AsType[*json.SemanticError](err); ok { // the decoder's message names Go's types
		if errors.Is(err, json.ErrUnknownName) {
			return fmt.Errorf("unknown field %q", bad.JSONPointer.LastToken())
		}
		return fmt.Errorf("field %q: JSON %s: %w", bad.JSONPointer, bad.JSONKind, cmp.Or(bad.Err, errKind))
	}
	return err
}
