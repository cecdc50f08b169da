// Package world is the cluster in which the environments of package lra place containers, and the
// instances that they draw: options and files become a [Source], which all copies of an environment
// share; an [Episode] of it draws a batch or arrivals, places one container after the other and
// keeps the features of nodes, the mask and the counts.
package world
