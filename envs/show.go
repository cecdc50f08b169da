package envs

// Spanner is implemented by tasks in which several things run side by side, such as the workers of a job.
type Spanner interface {
	// Spans returns what ran in the last step, row by row; none before the first step.
	Spans() []Span
}

// Span is something that ran for a while.
type Span struct {
	Row      string
	From, To float64 // seconds of the episode
	Kind     string  // one of the kinds below
	Label    string  // such as "500m"
}

// Kinds of spans.
const (
	SpanRun     = "run"
	SpanSlowest = "slowest" // the others waited for it
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
	Values  [][]float64 // by row and column; NaN where there is nothing to show
	Full    []float64   // by column: the amount that is drawn in full colour
}
