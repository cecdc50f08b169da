// Package planner divides the cores of a bulk-synchronous job among its tasks: the resource
// configuration algorithm, the controllers that decide when to run it, and a simulator of them.
package planner
