// Package solve solves linear programs ([LP]) and integer programs ([LP.Maximize]). Baselines of
// environments use it to plan exactly, or to bound the return of any policy.
package solve
