// Package searchspaces holds the search spaces of `trainer tune`.
package searchspaces

import "embed"

// Files holds the search space of each algorithm, <algo>.yml. ppo.yml describes their form.
//
//go:embed *.yml
var Files embed.FS
