// Package hyperparams holds the trainer's hyperparameter files.
package hyperparams

import "embed"

// Files holds the tuned hyperparameters, <algo>.yml, and published ones that differ from them,
// <source>/<algo>.yml, in the form of RL Zoo.
//
//go:embed *.yml */*.yml
var Files embed.FS
