package clustertrace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// create adds a pod and binds it or leaves it pending. The pod runs for the duration or, if that is nil, until it is
// removed.
func (g *generator) create(spec *Template, duration *time.Duration) *livePod {
	p := &livePod{spec: spec, node: -1}
	if g.err != nil {
		return p
	}
	var number int32
	if number, g.err = g.w.Template(g.now, spec); g.err != nil {
		return p
	}
	_, owner, _ := strings.Cut(spec.Owner, "/")
	e := g.write(Event{Kind: AddPod, Template: number, Name: fmt.Sprintf("%s-%s", owner, g.suffix()), UID: fmt.Sprintf("%08x", g.rng.Uint32())})
	p.number = e.Pod
	g.pods++
	if duration != nil {
		p.ran = func() { g.plan(g.now+*duration, func() { g.finish(p) }) }
	}
	if !g.place(p) {
		g.waiting = append(g.waiting, p)
		g.retry()
	}
	return p
}

// suffix returns the end of a pod's name: its number and five random characters, as controllers draw them.
func (g *generator) suffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789" // of k8s.io/apimachinery/pkg/util/rand
	b := strconv.AppendInt(nil, int64(g.pods), 36)
	for range 5 {
		b = append(b, letters[g.rng.IntN(len(letters))])
	}
	return string(b)
}

// retry plans the next attempt to bind the pending pods.
func (g *generator) retry() {
	if g.retrying {
		return
	}
	g.retrying = true
	g.plan(g.now+retryEvery, func() {
		g.retrying = false
		g.waiting = slices.DeleteFunc(g.waiting, func(p *livePod) bool { return p.gone || g.place(p) })
		if len(g.waiting) > 0 {
			g.retry()
		}
	})
}

// place binds the pod to a node if it fits one.
func (g *generator) place(p *livePod) bool {
	best := -1
	for range sampledNodes {
		i := g.rng.IntN(len(g.nodes))
		if g.fits(p.spec, i) && (best < 0 || g.nodes[i].cpu > g.nodes[best].cpu) {
			best = i
		}
	}
	for k, from := 0, g.rng.IntN(len(g.nodes)); best < 0 && k < len(g.nodes); k++ {
		if i := (from + k) % len(g.nodes); g.fits(p.spec, i) {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	n := &g.nodes[best]
	p.node = best
	n.cpu, n.memory, n.pods = n.cpu-p.spec.MilliCPU, n.memory-p.spec.MemoryBytes, n.pods+1
	for d := range n.gpu {
		if len(p.devices) < int(p.spec.GPUs) && n.gpu[d] >= p.spec.MilliGPU {
			n.gpu[d] -= p.spec.MilliGPU
			p.devices = append(p.devices, d)
		}
	}
	g.write(Event{Kind: BindPod, Pod: p.number, Node: int32(best), Devices: p.devices})
	g.plan(g.now+time.Second+time.Duration(g.rng.Int64N(int64(4*time.Second))), func() {
		if p.gone {
			return
		}
		g.write(Event{Kind: RunPod, Pod: p.number})
		if p.ran != nil {
			p.ran()
		}
	})
	return true
}

func (g *generator) fits(t *Template, i int) bool {
	n := &g.nodes[i]
	if t.MilliCPU > n.cpu || t.MemoryBytes > n.memory || n.pods >= n.Pods {
		return false
	}
	devices := int32(0)
	for _, free := range n.gpu {
		if free >= t.MilliGPU {
			devices++
		}
	}
	return devices >= t.GPUs && t.Refusal(&n.Node) == ""
}

// free releases the pod's resources on its node.
func (g *generator) free(p *livePod) {
	p.gone = true
	if p.node < 0 {
		return
	}
	n := &g.nodes[p.node]
	n.cpu, n.memory, n.pods = n.cpu+p.spec.MilliCPU, n.memory+p.spec.MemoryBytes, n.pods-1
	for _, d := range p.devices {
		n.gpu[d] += p.spec.MilliGPU
	}
}

func (g *generator) finish(p *livePod) {
	g.free(p)
	g.write(Event{Kind: FinishPod, Pod: p.number, Phase: Succeeded})
	g.plan(g.now+deleteAfter, func() { g.write(Event{Kind: DeletePod, Pod: p.number}) })
}

// remove deletes a pod of a service.
func (g *generator) remove(p *livePod) {
	if p.gone {
		return
	}
	g.free(p)
	g.write(Event{Kind: DeletePod, Pod: p.number})
}
