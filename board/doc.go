// Package board serves a page on which people watch trainings, comparisons and episodes: the curves of
// any number of runs, the tables of compare, and a cluster step by step, with the reason why each node
// was or was not chosen.
//
// The page is in ui/, written in TypeScript and bundled by tools/boardbundle into dist/, which is
// embedded. It asks for nothing from another host. docs/board.md documents the JSON routes.
package board
