// Package world is the cluster on which the environments of package lra place containers, with the instances that they
// draw. Options and files become a [Source], which all copies of an environment share. An [Episode] of it draws a batch
// or arrivals, places one container after the other, and keeps the features of nodes, the mask and the counts.
package world
