package profile

import (
	"fmt"
	"io"
	"slices"

	"github.com/kubernasium/kubernasium/envs/dataset"
)

// minKnots is the number of grid points that a not-a-knot cubic spline needs.
const minKnots = 4

// profileColumns are the columns of a profile file, found by name.
var profileColumns = []string{"Task Name", "Workload Size", "CPU Shares", "Duration"}

// Profile holds measured durations of one superstep of each task on a complete grid of
// workload sizes and CPU shares. A Profile is not changed after it was made.
type Profile struct {
	Tasks     []string  // names in the order of first appearance, which breaks ties between tasks
	Sizes     []float64 // grid of workload sizes, ascending, at least 4
	Shares    []float64 // grid of CPU shares in millicores, ascending, at least 4
	Durations []float64 // seconds, > 0, row-major of shape (task, size, share)
}

// Duration returns the measured duration in seconds at a grid point, by indices.
func (p *Profile) Duration(task, size, share int) float64 {
	return p.Durations[(task*len(p.Sizes)+size)*len(p.Shares)+share]
}

// Read reads the profile file at path; see Parse.
func Read(path string) (*Profile, error) { return dataset.ReadFile(path, Parse) }

// Parse reads a profile from CSV with the columns Task Name, Workload Size, CPU Shares and Duration, in any order of
// columns and rows. The grid must be complete and free of duplicates, with at least 4 sizes and 4 shares; durations are
// positive. Errors contain name, for the file, and the line.
func Parse(name string, r io.Reader) (*Profile, error) {
	g, err := readGrid(name, r)
	if err != nil {
		return nil, err
	}
	return g.profile()
}

// grid collects the points of a profile before its extent is known.
type grid struct {
	table  *dataset.Table
	tasks  []string
	sizes  []float64
	shares []float64
	points map[gridPoint]float64
}

// maxShare bounds the millicores of a profile: a thousand cores. FitLaw searches over the shares, so its time grows
// with the greatest.
const maxShare = 1_000_000

type gridPoint struct {
	task        string
	size, share float64
}

// readGrid reads the file of [Parse]; points of the grid may be missing.
func readGrid(name string, r io.Reader) (*grid, error) {
	t, err := dataset.Open("gang: ", name, r)
	if err != nil {
		return nil, err
	}
	index, err := t.Columns(profileColumns...)
	if err != nil {
		return nil, err
	}
	g := &grid{table: t, points: make(map[gridPoint]float64)}
	for row, err := range t.Rows() {
		if err != nil {
			return nil, err
		}
		if err := g.add(row, index); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *grid) add(row []string, index []int) error {
	t, task := g.table, row[index[0]]
	if task == "" {
		return t.Errorf("%s is empty", profileColumns[0])
	}
	var v [3]float64
	if err := t.Numbers(v[:], row, index[1:]); err != nil {
		return err
	}
	if v[1] <= 0 {
		return t.Errorf("%s %v, want > 0", profileColumns[2], v[1])
	}
	if v[1] > maxShare {
		return t.Errorf("%s %v, want at most %d", profileColumns[2], v[1], maxShare)
	}
	if v[2] <= 0 {
		return t.Errorf("%s %v, want > 0", profileColumns[3], v[2])
	}
	p := gridPoint{task, v[0] + 0, v[1]} // + 0 turns -0 into 0, so that both are one point
	if _, ok := g.points[p]; ok {
		return t.Errorf("second row for %s", p)
	}
	if !slices.Contains(g.tasks, task) {
		g.tasks = append(g.tasks, task)
	}
	g.sizes = insertSorted(g.sizes, p.size)
	g.shares = insertSorted(g.shares, p.share)
	g.points[p] = v[2]
	return nil
}

func (p gridPoint) String() string {
	return fmt.Sprintf("task %s, size %v, shares %v", p.task, p.size, p.share)
}

// insertSorted adds v to ascending values unless it is among them.
func insertSorted(values []float64, v float64) []float64 {
	i, found := slices.BinarySearch(values, v)
	if found {
		return values
	}
	return slices.Insert(values, i, v)
}

// profile checks that the grid is complete before it allocates an array of its extent.
func (g *grid) profile() (*Profile, error) {
	if err := g.checkAxes(); err != nil {
		return nil, err
	}
	p := &Profile{Tasks: g.tasks, Sizes: g.sizes, Shares: g.shares}
	for _, task := range p.Tasks {
		for _, size := range p.Sizes {
			for _, share := range p.Shares {
				point := gridPoint{task, size, share}
				d, ok := g.points[point]
				if !ok {
					return nil, g.table.Errorf("hole in the grid at the end of the file: no row for %s", point)
				}
				p.Durations = append(p.Durations, d)
			}
		}
	}
	return p, nil
}

// checkAxes returns an error if an axis of the grid has too few points.
func (g *grid) checkAxes() error {
	if len(g.points) == 0 {
		return g.table.Errorf("no rows after the header")
	}
	for _, axis := range []struct {
		name string
		n    int
	}{{"workload sizes", len(g.sizes)}, {"CPU shares", len(g.shares)}} {
		if axis.n < minKnots {
			return g.table.Errorf("%d distinct %s at the end of the file, want at least %d for the cubic spline", axis.n, axis.name, minKnots)
		}
	}
	return nil
}
