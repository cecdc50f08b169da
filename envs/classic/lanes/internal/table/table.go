// Package table has the places of arrays and constants that the kernels of package lanes and their callers share.
package table

// Arrays of the environments, in their order.
const (
	Pos = iota
	Vel
	Theta
	Omega
	Force
)

// Rows is the length of an array, and LaneBytes its size.
const (
	Rows      = 64
	LaneBytes = 8 * Rows
)

// Rows of the constants, each of which is as many times the same number as the widest vector holds: coefficients of the
// series, the highest first, of which the last ones are in two parts, and then the numbers of the system.
const (
	SinTail = 0
	CosTail = SinTail + 8
	Sin     = CosTail + 8
	Cos     = Sin + 2*3
	System  = Cos + 2*4

	One = System + iota - 5
	Gravity
	MassPole
	MassTotal
	HalfLength
	PoleMassLength
	FourThirds
	Tau
	Constants // their number
)

// RowBytes is the size of a row of constants.
const RowBytes = 64
