//go:build !purego

package fused

const (
	narrow      = 4  // most columns that narrowGEMM computes as rows
	narrowRows  = 64 // rows that it computes together, as columns
	narrowDepth = 32 // elements of the inner index that it transposes together
)

// narrowColumns returns the number of last columns of a product that narrowGEMM computes: those beyond whole strips, if
// they are few and there are enough rows. Vectors over so few columns would be mostly empty.
func narrowColumns(m, n, strip int, a matrix) int {
	least := narrowRows / 2
	if a.row == 1 { // a needs no transposition
		least = 2 * narrow
	}
	if rest := n % strip; rest <= narrow && m >= least {
		return rest
	}
	return 0
}

// A narrowBlock is the transpose of rows of c.
type narrowBlock [narrow * narrowRows]float32

// narrowGEMM is gemm for at most narrow columns. It computes the transposes, cᵀ = startᵀ + bᵀ·aᵀ, where each element is
// the same chain of fused multiply-adds.
func narrowGEMM(wide bool, m, n, k int, a matrix, b []float32, ldb int, c []float32, ldc int, start []float32, ldstart int) {
	if a.row != 1 {
		narrowAcross(wide, m, n, k, a, b, ldb, c, ldc, start, ldstart)
		return
	}
	var s narrowBlock
	for i := 0; i < m; i += narrowRows {
		rows := min(narrowRows, m-i)
		s.begin(rows, n, i, start, ldstart)
		s.add(wide, rows, n, k, b, ldb, a.x[i:], a.col)
		s.end(rows, n, c[i*ldc:], ldc)
	}
}

// narrowAcross is narrowGEMM for an a that must be transposed.
func narrowAcross(wide bool, m, n, k int, a matrix, b []float32, ldb int, c []float32, ldc int, start []float32, ldstart int) {
	var s narrowBlock
	var at [narrowDepth * narrowRows]float32
	for i := 0; i < m; i += narrowRows {
		rows := min(narrowRows, m-i)
		s.begin(rows, n, i, start, ldstart)
		for p := 0; p < k; p += narrowDepth {
			depth := min(narrowDepth, k-p)
			transposeTo(at[:], narrowRows, a.x[i*a.row+p:], a.row, rows, depth)
			s.add(wide, rows, n, depth, b[p*ldb:], ldb, at[:], narrowRows)
		}
		s.end(rows, n, c[i*ldc:], ldc)
	}
}

// begin sets the block to rows from i on of start.
func (s *narrowBlock) begin(rows, n, i int, start []float32, ldstart int) {
	for j := range n {
		column := s[j*narrowRows:][:rows]
		switch {
		case start == nil:
			clear(column)
		case ldstart == 0:
			for r := range column {
				column[r] = start[j]
			}
		default:
			for r := range column {
				column[r] = start[(i+r)*ldstart+j]
			}
		}
	}
}

// add adds bᵀ·at.
func (s *narrowBlock) add(wide bool, rows, n, k int, b []float32, ldb int, at []float32, ldat int) {
	if bt := (matrix{b, 1, ldb}); wide {
		avx512{}.gemm(n, rows, k, bt, at, ldat, s[:], narrowRows, s[:], narrowRows)
	} else {
		avx2{}.gemm(n, rows, k, bt, at, ldat, s[:], narrowRows, s[:], narrowRows)
	}
}

// end writes the block to rows of c.
func (s *narrowBlock) end(rows, n int, c []float32, ldc int) {
	for j := range n {
		for r, x := range s[j*narrowRows:][:rows] {
			c[r*ldc+j] = x
		}
	}
}
