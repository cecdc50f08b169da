// Package hyperparams holds the trainer's hyperparameter files.
package hyperparams

import "embed"

// Files holds the tuned hyperparameters, <algo>.yml, and other published ones, <source>/<algo>.yml, in RL Zoo's
// format.
//
//go:embed *.yml */*.yml
var Files embed.FS
