// Package deploy holds the Helm chart by which a cluster runs environment server, scheduler, shadow and
// recommender, and its tests: Helm installs the chart on a control plane that authorizes by roles, and each
// program works there with the arguments, the account and the rights that the chart gives it.
package deploy
