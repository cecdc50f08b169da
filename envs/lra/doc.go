// Package lra is the vocabulary of long-running applications that interfere with one another: counts of
// containers, the states of a node, and tables of what containers achieve in them. Packages throughput,
// interference, planner and subcluster below it are what is known of the problem whatever the
// environment; package files reads and writes it. The environments are placement, hierarchical and
// pricing, on the cluster of package world.
//
// A node runs at most 8 containers of 7 applications, and what each of them achieves depends on
// all of them: most contend, and some gain from a store beside them. Nodes do not affect one
// another, so that the cluster is a table of the 6,435 states of a node.
//
// # Source
//
// L. Wang, Q. Weng, W. Wang, C. Chen, B. Li, "Metis: Learning to Schedule Long-Running
// Applications in Shared Container Clusters at Scale", SC'20, and its artefact; P. Garefalakis et
// al., "Medea", EuroSys'18; C. Delimitrou and C. Kozyrakis, "Paragon", ASPLOS'13.
package lra
