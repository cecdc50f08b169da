// Package oracle compares the recommender with the one of kubernetes/autoscaler, whose Go
// packages it feeds with the same samples. It is a module of its own, so that neither building
// nor testing Kubernasium needs Kubernetes.
package oracle
