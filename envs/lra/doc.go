// Package lra models long-running applications that interfere with one another: counts of containers, the states of a
// node, and tables of the throughput of containers in each state. The packages throughput, interference, planner and
// subcluster below it do not depend on an environment; package files reads and writes their data. The environments are
// placement, hierarchical and pricing, on the cluster of package world.
//
// A node runs at most 8 containers of 7 applications. The throughput of each depends on all of them: most contend, and
// some gain from a store on the same node. Nodes do not affect one another, so a table of the 6,435 states of a node
// describes the cluster.
//
// # Source
//
// L. Wang, Q. Weng, W. Wang, C. Chen, B. Li, "Metis: Learning to Schedule Long-Running Applications in Shared Container
// Clusters at Scale", SC'20, and its artefact; P. Garefalakis et al., "Medea", EuroSys'18; C. Delimitrou and C.
// Kozyrakis, "Paragon", ASPLOS'13.
package lra
