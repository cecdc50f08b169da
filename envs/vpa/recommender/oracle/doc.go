// Package oracle compares the recommender with the one of kubernetes/autoscaler: it feeds the latter's Go packages with
// the same samples. It is a separate module, so that neither building nor testing Kubernasium needs Kubernetes.
package oracle
