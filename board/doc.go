// Package board serves a page that shows trainings, comparisons and episodes: the curves of any number of runs, the
// tables of compare, and a cluster step by step, with the reasons for and against each node.
//
// The page is in ui/, written in TypeScript and bundled by tools/boardbundle into dist/, which is
// embedded. It loads nothing from other hosts. docs/board.md documents the JSON routes.
package board
