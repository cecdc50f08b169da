// Package solve has linear programs ([LP]) and integer programs ([LP.Maximize]), by which baselines
// of environments plan exactly or bound what any policy can reach.
package solve
