// Package published reproduces Kube_Gang_Scheduling (E. Wang, 2021): it reads the data and result tables of that
// project, replays its environment, and compares its controllers with ours.
package published
