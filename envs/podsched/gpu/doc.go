// Package gpu places pods one at a time onto nodes with GPUs that can be shared.
//
// [Reproduce] plays a heuristic on the workload of the reference simulator of fragmentation
// gradient descent (FGD), exactly.
package gpu
