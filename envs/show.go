package envs

import "github.com/kubernasium/kubernasium/envs/cluster"

// Explainer is implemented by tasks that can explain the next decision: a row of properties for each node, under the
// names of the columns. The last column is the reason why the node is masked out.
type Explainer interface {
	Explain(s *cluster.State) (columns []string, rows [][]string)
}

// Spanner is implemented by tasks with parallel activities, such as the workers of a job.
type Spanner interface {
	// Spans returns the activities of the last step, row by row; none before the first step.
	Spans() []Span
}

// Span is an activity over time.
type Span struct {
	Row      string
	From, To float64 // seconds of the episode
	Kind     string  // one of the kinds below
	Label    string  // such as "500m"
}

// Kinds of spans.
const (
	SpanRun     = "run"
	SpanSlowest = "slowest" // waiting for the others
	SpanReplan  = "re-plan"
)

// Gridder is implemented by tasks whose state is a table of amounts.
type Gridder interface {
	// Grids returns the tables of the current state.
	Grids() []Grid
}

// Grid is a table of amounts.
type Grid struct {
	Title   string
	Columns []string
	Rows    []string
	Values  [][]float64 // by row and column; NaN for an empty cell
	Full    []float64   // by column: the amount drawn in full colour
}
