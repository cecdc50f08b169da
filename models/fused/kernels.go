package fused

// A matrix views an array as a matrix: element (i, j) is x[i*row + j*col].
type matrix struct {
	x        []float32
	row, col int
}

// kernels are the operations on arrays in passes. Rows of the arguments b, c, start and d start
// ldb, ldc, ldstart and ldd elements apart. Implementations keep no state.
type kernels interface {
	// gemm sets c to start + a·b, where a is m×k, b is k×n and c is m×n. A nil start is zero,
	// ldstart 0 repeats one row, and start may be c. One of a.row and a.col is 1.
	gemm(m, n, k int, a matrix, b []float32, ldb int, c []float32, ldc int, start []float32, ldstart int)

	// activate replaces each x by max(x, 0) if relu, otherwise by tanh(x).
	activate(x []float32, relu bool)

	// derive multiplies d by the derivative of the activation, whose result was y. That of
	// max(x, 0) at 0 is 0.
	derive(d, y []float32, relu bool)

	// sumRows adds rows of d, of the length of sum, to sum, one row after another.
	sumRows(sum, d []float32, rows, ldd int)

	// maxRows sets max to the maximum over the rows of x, which are as long as max and contiguous,
	// and row to the first row that has it. A NaN is greater than all numbers.
	maxRows(max []float32, row []int32, x []float32)

	// normalize sets xhat to y normalized to mean 0 and variance 1 (up to normEps), and y to
	// xhat·gamma + beta. It returns the factor 1/σ.
	normalize(y, xhat, gamma, beta []float32) (inverse float32)

	// normalizeGradient replaces d, the gradient of y after normalize, by that of y before, and
	// adds that of gamma to weight.
	normalizeGradient(d, xhat, gamma, weight []float32, inverse float32)

	// transpose sets dst to the transpose of src, which has the given rows and columns.
	transpose(dst, src []float32, rows, cols int)

	// add adds x to y, elementwise.
	add(y, x []float32)

	// addScaled adds a·x to y, elementwise.
	addScaled(y, x []float32, a float32)
}

// A variant is an implementation of the kernels with its name.
type variant struct {
	name string
	kernels
}
