package models

import (
	"errors"
	"fmt"
	"math"
)

// Validate returns an error that wraps [ErrSpec] if s does not describe a network.
func (s Spec) Validate() error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrSpec, err)
	}
	return nil
}

func (s Spec) validate() error {
	if err := checkWidth(s.Inputs); err != nil {
		return fmt.Errorf("inputs: %w", err)
	}
	if s.Nodes != nil {
		if err := s.Nodes.validate(s.Inputs); err != nil {
			return fmt.Errorf("nodes: %w", err)
		}
	}
	if len(s.Heads) == 0 {
		return errors.New("no heads, want at least one")
	}
	// Two layers with the same name would also share their parameters' names.
	seen := map[string]bool{NodeRows: true}
	for _, l := range s.LSTMs {
		if err := l.validate(s.Nodes != nil); err != nil {
			return fmt.Errorf("lstm %q: %w", l.Name, err)
		}
		if seen[l.Name] {
			return fmt.Errorf("lstm %q is named twice", l.Name)
		}
		seen[l.Name] = true
	}
	for i, t := range s.Towers {
		if err := t.validate(); err != nil {
			return fmt.Errorf("tower %q: %w", t.Name, err)
		}
		if seen[t.Name] {
			return fmt.Errorf("tower %q is named twice", t.Name)
		}
		if err := s.validateSource(i); err != nil {
			return fmt.Errorf("tower %q: %w", t.Name, err)
		}
		seen[t.Name] = true
	}
	for i, h := range s.Heads {
		if err := h.validate(len(s.Towers)); err != nil {
			return fmt.Errorf("head %q: %w", h.Name, err)
		}
		if seen[h.Name] {
			return fmt.Errorf("head %q has the name of another head or tower", h.Name)
		}
		if h.Joined && i == 0 {
			return fmt.Errorf("head %q is joined to the head before it, but is the first", h.Name)
		}
		if len(h.Blocks) > 0 && !h.Free && s.PerNode(h.Tower) {
			return fmt.Errorf("head %q of each node has blocks", h.Name)
		}
		if !h.Free && !s.PerNode(h.Tower) {
			if err := checkWidth(s.TowerOutputs(h.Tower)); err != nil {
				return fmt.Errorf("head %q: what it reads: %w", h.Name, err)
			}
		}
		seen[h.Name] = true
	}
	if err := s.checkRead(); err != nil {
		return err
	}
	if err := checkWidth(s.Outputs()); err != nil {
		return fmt.Errorf("outputs: %w", err)
	}
	return s.checkParams()
}

// checkRead rejects towers and LSTMs that nothing reads.
func (s Spec) checkRead() error {
	towers, lstms := make([]bool, len(s.Towers)), make([]bool, len(s.LSTMs))
	for _, h := range s.Heads {
		if !h.Free {
			towers[h.Tower] = true
		}
	}
	for i := range s.Towers {
		lstm, tower := s.Source(i)
		if lstm >= 0 {
			lstms[lstm] = true
		}
		if tower >= 0 {
			towers[tower] = true
		}
	}
	for i, t := range s.Towers {
		if !towers[i] {
			return fmt.Errorf("tower %q is read by no head", t.Name)
		}
	}
	for i, l := range s.LSTMs {
		if !lstms[i] {
			return fmt.Errorf("lstm %q is read by no tower", l.Name)
		}
	}
	return nil
}

// checkParams rejects parameters that share a name or are too many.
func (s Spec) checkParams() error {
	names, total := map[string]bool{}, 0
	for _, p := range ParamLayout(s) {
		if names[p.Name] {
			return fmt.Errorf("two parameters are named %q", p.Name)
		}
		names[p.Name] = true
		// A width is at most 2^22, so that neither the product nor the sum overflows.
		if total += size(p.Shape); total > MaxParameters {
			return fmt.Errorf("more than %d parameters", MaxParameters)
		}
	}
	return nil
}

func (t Tower) validate() error {
	if t.Name == "" {
		return errors.New("the name is empty")
	}
	for i, n := range t.Hidden {
		if err := checkWidth(n); err != nil {
			return fmt.Errorf("hidden layer %d: %w", i, err)
		}
	}
	if layers[t.Layer] == nil {
		return fmt.Errorf("layer %q, want %q, %q or none", t.Layer, SAGE, GCN)
	}
	switch t.Activation {
	case Tanh, ReLU:
		return nil
	case "":
		if len(t.Hidden) == 0 {
			return nil
		}
	}
	return fmt.Errorf("activation %q, want %q or %q", t.Activation, Tanh, ReLU)
}

// validateSource checks that the input of tower i comes before it.
func (s Spec) validateSource(i int) error {
	t := s.Towers[i]
	if t.Beside != "" && t.Reads != NodeRows {
		return fmt.Errorf("reads %q beside nodes, but does not read %q", t.Beside, NodeRows)
	}
	if t.Reads == NodeRows {
		switch {
		case s.Nodes == nil:
			return errors.New("reads nodes, but the spec has none")
		case len(t.Hidden) == 0:
			return errors.New("reads nodes and has no hidden layers, want at least one")
		case t.Layer != "" && s.Nodes.Edges == nil:
			return fmt.Errorf("layer %q, but the spec has no edges", t.Layer)
		case t.Beside != "" && s.lstm(t.Beside) < 0:
			return fmt.Errorf("reads %q beside nodes, which is no lstm", t.Beside)
		case t.Pool != "" || t.Detach && t.Beside == "":
			return errors.New("pools or detaches nodes of the observation")
		}
		return nil
	}
	if t.Layer != "" {
		return fmt.Errorf("layer %q, but the tower does not read %q", t.Layer, NodeRows)
	}
	if t.Reads == "" || s.lstm(t.Reads) >= 0 {
		if t.Pool != "" {
			return fmt.Errorf("pool %q of what has no nodes", t.Pool)
		}
		if t.Detach && t.Reads == "" {
			return errors.New("detaches the observation")
		}
		return nil
	}
	if j := s.tower(t.Reads); j < 0 || j >= i || !s.PerNode(j) {
		return fmt.Errorf("reads %q, which is no lstm and no node tower before it", t.Reads)
	}
	return checkPool(t.Pool)
}

func checkPool(pool string) error {
	if poolings[pool] != nil {
		return nil
	}
	return fmt.Errorf("pool %q, want %q, %q or %q", pool, Mean, Max, MeanMax)
}

func (h Head) validate(towers int) error {
	if h.Name == "" {
		return errors.New("the name is empty")
	}
	if err := checkWidth(h.Size); err != nil {
		return err
	}
	if err := h.validateBlocks(); err != nil {
		return err
	}
	if h.Free {
		if h.Tower != 0 || h.Gain != 0 || math.IsNaN(h.Value) || math.IsInf(h.Value, 0) {
			return fmt.Errorf("free, with tower %d, gain %v and value %v, want 0, 0 and a finite number", h.Tower, h.Gain, h.Value)
		}
		return nil
	}
	if h.Tower < 0 || h.Tower >= towers {
		return fmt.Errorf("reads tower %d of %d", h.Tower, towers)
	}
	if !(h.Gain > 0) || math.IsInf(h.Gain, 1) {
		return fmt.Errorf("gain %v, want a number greater than 0", h.Gain)
	}
	if h.Value != 0 {
		return fmt.Errorf("value %v, but it is not free", h.Value)
	}
	return nil
}

func (h Head) validateBlocks() error {
	if len(h.Blocks) == 0 {
		return nil
	}
	sum := 0
	for _, b := range h.Blocks {
		if err := checkWidth(b); err != nil {
			return fmt.Errorf("block: %w", err)
		}
		sum += b
	}
	if sum != h.Size {
		return fmt.Errorf("blocks sum to %d, want %d", sum, h.Size)
	}
	return nil
}

func (l LSTM) validate(nodes bool) error {
	if l.Name == "" {
		return errors.New("the name is empty")
	}
	if l.Layers < 0 || l.Layers > MaxLSTMLayers {
		return fmt.Errorf("%d layers, want 0 to %d", l.Layers, MaxLSTMLayers)
	}
	if l.Pool != "" {
		if !nodes {
			return fmt.Errorf("pool %q, but the spec has no nodes", l.Pool)
		}
		if err := checkPool(l.Pool); err != nil {
			return err
		}
	}
	return checkWidth(l.Hidden)
}

func checkWidth(n int) error {
	if n < 1 || n > MaxWidth {
		return fmt.Errorf("size %d, want 1 to %d", n, MaxWidth)
	}
	return nil
}
