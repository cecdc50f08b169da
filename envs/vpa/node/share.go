package node

// Share writes to grant the millicores that each pod gets on a node with the given capacity. scratch must have at least
// 3·len(pods)+6 numbers. Share allocates nothing.
func Share(pods []Pod, capacity float64, grant, scratch []float64) {
	n := len(pods)
	// The top level has the Guaranteed pods, the group of Burstable pods and that of BestEffort pods.
	top := n + 2
	want, weight, got := scratch[:top], scratch[top:2*top], scratch[2*top:3*top]
	clear(want)
	clear(weight)
	for i := range pods {
		p := &pods[i]
		at := i
		if p.Class != Guaranteed {
			at = n + int(p.Class)
		}
		want[at] += max(p.CPU, 0)
		if p.Class != BestEffort {
			weight[at] += float64(p.Requests.MilliCPU) * sharesPerCore / 1000
		}
	}
	for i := range weight {
		weight[i] = max(weight[i], minShares)
	}
	for i := range got {
		got[i] = open
	}
	fill(want, weight, capacity, got)
	for i := range pods {
		grant[i] = 0
		if pods[i].Class == Guaranteed {
			grant[i] = got[i]
		}
	}
	for _, class := range [...]QoS{BestEffort, Burstable} {
		shareGroup(pods, class, got[n+int(class)], grant, scratch[:2*n])
	}
}

// shareGroup divides a group's CPU among its pods.
func shareGroup(pods []Pod, class QoS, capacity float64, grant, scratch []float64) {
	n := len(pods)
	want, weight := scratch[:n], scratch[n:2*n]
	for i := range pods {
		if pods[i].Class == class {
			want[i] = max(pods[i].CPU, 0)
			weight[i] = max(float64(pods[i].Requests.MilliCPU)*sharesPerCore/1000, minShares)
			grant[i] = open
		}
	}
	fill(want, weight, capacity, grant)
}

// open marks the elements that fill fills.
const open = -1

// fill writes weighted max-min fair shares of capacity to the open elements of got: none gets more than it wants, and
// those that get less have shares in proportion to their weights.
func fill(want, weight []float64, capacity float64, got []float64) {
	left := max(capacity, 0)
	for {
		total := 0.0
		for i := range got {
			if got[i] < 0 {
				total += weight[i]
			}
		}
		if total == 0 {
			return
		}
		level, satisfied := left/total, 0.0
		for i := range got {
			if got[i] < 0 && want[i] <= level*weight[i] {
				got[i] = want[i]
				satisfied += want[i]
				total = -1
			}
		}
		if total > 0 { // each wants more than its part
			for i := range got {
				if got[i] < 0 {
					got[i] = level * weight[i]
				}
			}
			return
		}
		left = max(left-satisfied, 0)
	}
}
