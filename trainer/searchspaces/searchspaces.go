// Package searchspaces holds the search spaces of `trainer tune`.
package searchspaces

import "embed"

// Files holds the search space of each algorithm, <algo>.yml. Their form is described in ppo.yml.
//
//go:embed *.yml
var Files embed.FS
