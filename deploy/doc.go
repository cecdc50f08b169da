// Package deploy tests the Helm chart that runs the environment server, the scheduler, the shadow and the
// recommender in a cluster. Helm installs the chart on a control plane with RBAC; each program runs there with
// the arguments, the account and the rights that the chart gives it.
package deploy
