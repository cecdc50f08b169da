// Package published reproduces Kube_Gang_Scheduling (E. Wang, 2021): it reads that project's data and
// result tables, replays its environment, and compares its controllers with ours.
package published
