// Package interference derives from throughputs which applications should or should not share a node: the constraints
// of Medea and Paragon.
package interference

import (
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs/lra"
)

// A Constraint limits the containers of application Other on a node with one of Subject: to at most Threshold or, with
// AtLeast, at least Threshold.
//
// Source: the constraint generation of the Metis artefact for its Medea and Paragon baselines (SC'20).
type Constraint struct {
	Subject, Other int
	AtLeast        bool
	Threshold      int
	Curve          [lra.MaxSlots]float64 // throughput of Subject beside 0 … 7 of Other, relative to that alone; zero if unknown
}

// Weight returns the cost of a violation in Medea: 1, but 2 for the store beside its readers.
func (c *Constraint) Weight() float64 {
	if c.Subject == lra.Store && (c.Other == 1 || c.Other == 6) {
		return 2
	}
	return 1
}

// Limits of a constraint: the change of throughput that makes one.
const (
	leastSpread = 1.1
	gainRatio   = 1.1
	lossRatio   = 0.9
)

// Derive derives the constraints from throughputs: rps returns that of a container of subject beside k of other. It
// considers curves whose extremes differ by more than 10 %, and takes the first k with a throughput more than 10 %
// above or below that of the subject alone.
func Derive(rps func(subject, other, k int) float64) []Constraint {
	var all []Constraint
	for s := range lra.NumApps {
		for o := range lra.NumApps {
			c := Constraint{Subject: s, Other: o}
			alone := rps(s, o, 0)
			for k := range c.Curve {
				c.Curve[k] = rps(s, o, k) / alone
			}
			if slices.Max(c.Curve[:])/slices.Min(c.Curve[:]) > leastSpread && c.threshold() {
				all = append(all, c)
			}
		}
	}
	return all
}

// threshold sets AtLeast and Threshold from the curve and reports whether there is a limit.
func (c *Constraint) threshold() bool {
	for k := 1; k < len(c.Curve); k++ {
		switch {
		case c.Curve[k] > gainRatio:
			c.AtLeast, c.Threshold = true, k
			return true
		case c.Curve[k] < lossRatio:
			c.Threshold = k - 1
			if c.Subject == c.Other { // including the subject itself
				c.Threshold = k
			}
			return true
		}
	}
	return false
}

// OfTable derives the constraints from the states of t with one or two applications.
func OfTable(t *lra.Table) []Constraint {
	return Derive(func(subject, other, k int) float64 {
		var c lra.Counts
		c[subject]++
		c[other] += k
		s, _ := lra.StateOf(c) // one container beside at most 7
		return t.RPS[s][subject]
	})
}

// Pairs is a profile of nodes with one or two applications.
type Pairs map[lra.Counts][lra.NumApps]float64

// Constraints derives the constraints from the profile, or returns an error that names what is missing.
func (p Pairs) Constraints() ([]Constraint, error) {
	var missing error
	all := Derive(func(subject, other, k int) float64 {
		var c lra.Counts
		c[subject]++
		c[other] += k
		v, ok := p[c]
		if (!ok || v[subject] <= 0) && missing == nil {
			missing = fmt.Errorf("lra: the pairwise profile has no throughput of %s on a node with %v", lra.Apps[subject], c)
		}
		return v[subject]
	})
	return all, missing
}

// Violations returns the weighted violations of the constraints on a node in state s: for each container and constraint
// of its application, by how many others the limit is missed. A container does not count itself among the others.
//
// Source: the integer program of the Metis artefact for Medea (Garefalakis et al., EuroSys'18), whose slack variables
// it sums.
func Violations(constraints []Constraint, s lra.State) float64 {
	n, cost := s.Counts(), 0.0
	for i := range constraints {
		c := &constraints[i]
		if n[c.Subject] == 0 {
			continue
		}
		others := n[c.Other]
		if c.Other == c.Subject {
			others--
		}
		off := others - c.Threshold
		if c.AtLeast {
			off = -off
		}
		if off > 0 {
			cost += c.Weight() * float64(off*n[c.Subject])
		}
	}
	return cost
}
