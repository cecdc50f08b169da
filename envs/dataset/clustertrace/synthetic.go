package clustertrace

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Synthetic holds the parameters of a generated recording.
//
// Nodes have 32, 64 or 96 cores with 4 GiB each, in the proportion 3:5:2, in three zones. A part of them has 96 cores,
// 768 GiB and eight GPUs of one of three models, and a taint that repels other pods.
//
// Services request 60 % of Load: deployments of 1 + Geom(1/8) replicas, which are bound at the beginning, one in ten of
// them to a zone. The other pods are jobs of 1 + Geom(1/4) equal pods each. Jobs arrive as a Poisson process whose rate
// follows a sine: it is lowest at the beginning and three times as high after half of Span. Durations of their pods are
// lognormal with σ = 1.2 and a mean by which the jobs request the remaining 40 % on average. Jobs with GPUs request about
// the part Load of the GPUs, or less if half of the jobs do not suffice for that. If all nodes have GPUs, so do all jobs,
// which then request that part, and there are no services. A twentieth of the pods replace others, in rollouts of whole
// services, and one service in fifty is resized in place. Each node is cordoned once in ten Spans on average, for a
// twentieth of one.
//
// A pod is bound to the node with the most free CPU among twenty random ones that it fits, or else to the next node
// that it fits. A pod that fits no node stays pending and is retried every ten seconds, after those that have waited
// longer.
type Synthetic struct {
	Nodes    int           // 1 or more
	Pods     int           // 1 or more, created in all; services and jobs are never split, so a few more may be created
	Span     time.Duration // a minute or more
	Load     float64       // part of the CPU and of the GPUs that is requested on average, above 0 and below 1
	GPUNodes float64       // part of the nodes with GPUs, 0 to 1
}

// check returns an error if a parameter is invalid.
func (s *Synthetic) check() error {
	if s.Nodes < 1 || s.Nodes > MaxNodes || s.Pods < 1 || s.Pods > MaxPods || s.Span < time.Minute || !(s.Load > 0 && s.Load < 1) || !(s.GPUNodes >= 0 && s.GPUNodes <= 1) {
		return fmt.Errorf("clustertrace: %+v, want 1 to %d nodes, 1 to %d pods, a span of a minute or more, a load above 0 and below 1, and gpu nodes from 0 to 1", *s, MaxNodes, MaxPods)
	}
	return nil
}

// Proportions that [Synthetic] documents.
const (
	gib           = 1 << 30
	serviceShare  = 0.6
	sigma         = 1.2
	rolloutShare  = 0.05
	resizeOneIn   = 50
	zonedOneIn    = 10
	cordonsPer    = 0.1
	cordonFor     = 0.05
	sampledNodes  = 20
	retryEvery    = 10 * time.Second
	deleteAfter   = time.Minute
	gpusPerNode   = 8
	gpuNodeMillis = 96_000
)

var (
	nodeMillis  = []int64{32_000, 32_000, 32_000, 64_000, 64_000, 64_000, 64_000, 64_000, 96_000, 96_000}
	gpuModels   = []string{"A100", "L40S", "T4"}
	serviceSize = []int64{250, 500, 500, 1000, 1000, 2000, 4000}
	jobSize     = []int64{500, 1000, 2000, 4000, 8000}
	gibPerCore  = []int64{1, 2, 4, 4, 8}
	// gpuSize draws GPUs and thousandths of each; its mean is 1.05 GPUs, and meanGPUs rounds that.
	gpuSize    = [][2]int32{{1, 250}, {1, 500}, {1, 500}, {1, 1000}, {1, 1000}, {1, 1000}, {2, 1000}, {2, 1000}, {1, 250}, {2, 1000}}
	meanGPUs   = 1.1
	meanJobCPU = 3100.0 // of jobSize
)

// Synthesize writes a generated recording to w, without its last line. Equal generators give equal recordings.
func Synthesize(w *Writer, law Synthetic, rng *rand.Rand) error {
	if err := law.check(); err != nil {
		return err
	}
	g := &generator{law: law, w: w, rng: rng}
	g.addNodes()
	g.addServices()
	g.drawJobs()
	g.drawRollouts()
	g.drawResizes()
	g.drawCordons()
	for g.err == nil && len(g.agenda) > 0 {
		e := heap.Pop(&g.agenda).(entry)
		if e.at > law.Span {
			break
		}
		g.now = e.at
		e.do()
	}
	return g.err
}

// generator simulates the cluster of a [Synthetic].
type generator struct {
	law Synthetic
	w   *Writer
	rng *rand.Rand
	err error

	now      time.Duration
	agenda   agenda
	seq      int
	nodes    []freeNode
	capacity float64 // milli-CPU of the nodes without GPUs
	gpus     float64
	services []service
	pods     int
	waiting  []*livePod
	retrying bool
}

type freeNode struct {
	Node
	cpu, memory int64
	pods        int32
	gpu         []int32 // free thousandths of each device
}

type service struct {
	spec Template
	pods []*livePod
}

type livePod struct {
	number  int32
	spec    *Template
	node    int // -1: pending
	devices []int
	gone    bool
	ran     func() // called when the pod has started
}

// entry is an action at a time.
type entry struct {
	at  time.Duration
	seq int
	do  func()
}

type agenda []entry

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(entry)) }
func (a *agenda) Pop() any {
	old := *a
	e := old[len(old)-1]
	old[len(old)-1] = entry{}
	*a = old[:len(old)-1]
	return e
}

func (g *generator) plan(at time.Duration, do func()) {
	g.seq++
	heap.Push(&g.agenda, entry{at.Truncate(time.Millisecond), g.seq, do})
}

func (g *generator) write(e Event) Event {
	e.At = g.now
	if g.err == nil {
		g.err = g.w.Write(&e)
	}
	return e
}

func pick[T any](rng *rand.Rand, of []T) T { return of[rng.IntN(len(of))] }

// geometric returns 0 or more with the given mean.
func (g *generator) geometric(mean float64) int {
	return int(math.Log(1-g.rng.Float64()) / math.Log(mean/(mean+1)))
}

func (g *generator) addNodes() {
	withGPUs := int(math.Round(g.law.GPUNodes * float64(g.law.Nodes)))
	for i := range g.law.Nodes {
		name := fmt.Sprintf("node-%d", i)
		n := freeNode{Node: Node{
			Name: name, Pods: 110,
			Labels: map[string]string{"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", i%3)},
		}}
		if i < withGPUs {
			n.MilliCPU, n.MemoryBytes, n.GPUs, n.MilliGPU, n.GPUModel = gpuNodeMillis, 768*gib, gpusPerNode, 1000, gpuModels[i%len(gpuModels)]
			n.Taints = []Taint{{Key: "nvidia.com/gpu", Effect: "NoSchedule"}}
			g.gpus += gpusPerNode
		} else {
			n.MilliCPU = pick(g.rng, nodeMillis)
			n.MemoryBytes = n.MilliCPU / 1000 * 4 * gib
			g.capacity += float64(n.MilliCPU)
		}
		n.cpu, n.memory, n.gpu = n.MilliCPU, n.MemoryBytes, make([]int32, n.GPUs)
		for d := range n.gpu {
			n.gpu[d] = 1000
		}
		g.nodes = append(g.nodes, n)
		g.write(Event{Kind: AddNode, Info: new(n.Node)})
	}
}

// addServices adds the pods that run when the recording begins.
func (g *generator) addServices() {
	target, requested := serviceShare*g.law.Load*g.capacity, 0.0
	for requested < target && g.pods < g.law.Pods/2 {
		i := len(g.services)
		name := fmt.Sprintf("service-%d", i)
		cpu := pick(g.rng, serviceSize)
		s := service{spec: Template{
			Namespace: "services", Owner: "ReplicaSet/" + name + "-1", Labels: map[string]string{"app": name},
			MilliCPU: cpu, MemoryBytes: max(gib/4, cpu*pick(g.rng, gibPerCore)*gib/1000), Priority: 1000,
		}}
		if g.rng.IntN(zonedOneIn) == 0 {
			s.spec.NodeSelector = map[string]string{"topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", g.rng.IntN(3))}
		}
		for range 1 + g.geometric(7) {
			s.pods = append(s.pods, g.create(&s.spec, nil))
			requested += float64(cpu)
		}
		g.services = append(g.services, s)
	}
}

// drawJobs plans the arrivals of jobs.
func (g *generator) drawJobs() {
	rest := g.law.Pods - g.pods
	if len(g.services) > 0 {
		rest -= int(rolloutShare * float64(g.law.Pods))
	}
	if rest < 1 {
		return
	}
	span := g.law.Span.Seconds()
	mean := (1 - serviceShare) * g.law.Load * max(g.capacity, 1) * span / (float64(rest) * meanJobCPU)
	mean = min(mean, span/4)
	withGPUs := min(0.5, g.law.Load*g.gpus*span/(float64(rest)*mean*meanGPUs))
	if g.capacity == 0 { // no node takes a job without GPUs
		mean, withGPUs = min(g.law.Load*g.gpus*span/(float64(rest)*meanGPUs), span/4), 1
	}
	median := mean / math.Exp(sigma*sigma/2)
	for i, left := 0, rest; left > 0; i++ {
		spec := &Template{Namespace: "jobs", Owner: fmt.Sprintf("Job/job-%d", i), MilliCPU: pick(g.rng, jobSize)}
		if g.gpus > 0 && g.rng.Float64() < withGPUs {
			size := pick(g.rng, gpuSize)
			spec.GPUs, spec.MilliGPU = size[0], size[1]
			spec.Tolerations = []Toleration{{Key: "nvidia.com/gpu", Operator: "Exists"}}
			if g.rng.IntN(5) == 0 {
				spec.GPUModels = []string{pick(g.rng, gpuModels)}
			}
		}
		spec.MemoryBytes = max(gib/4, spec.MilliCPU*pick(g.rng, gibPerCore)*gib/1000)
		replicas := min(1+g.geometric(3), left)
		left -= replicas
		at := g.arrival()
		durations := make([]time.Duration, replicas)
		for k := range durations {
			durations[k] = time.Duration(max(1, median*math.Exp(sigma*g.rng.NormFloat64())) * float64(time.Second))
		}
		g.plan(at, func() {
			for _, d := range durations {
				g.create(spec, &d)
			}
		})
	}
}

// arrival draws a time by the day's curve, 1 − cos(2πt/Span)/2, by rejection.
func (g *generator) arrival() time.Duration {
	for {
		u := g.rng.Float64()
		if 1.5*g.rng.Float64() <= 1-math.Cos(2*math.Pi*u)/2 {
			return time.Duration(u * float64(g.law.Span))
		}
	}
}

// drawRollouts plans the rollouts of services.
func (g *generator) drawRollouts() {
	if len(g.services) == 0 {
		return
	}
	for left := int(rolloutShare * float64(g.law.Pods)); left > 0; {
		s := &g.services[g.rng.IntN(len(g.services))]
		left -= len(s.pods)
		revision := left
		g.plan(g.arrival(), func() {
			s.spec.Owner = fmt.Sprintf("ReplicaSet/%s-r%d", s.spec.Labels["app"], revision)
			spec := s.spec
			for i, old := range s.pods {
				fresh := g.create(&spec, nil)
				fresh.ran = func() { g.remove(old) }
				s.pods[i] = fresh
			}
		})
	}
}

// drawResizes plans in-place resizes of services: to half of their CPU, which always fits.
func (g *generator) drawResizes() {
	for i := 0; i < len(g.services); i += resizeOneIn {
		s := &g.services[i]
		g.plan(g.arrival(), func() {
			s.spec.MilliCPU /= 2
			spec := s.spec
			for _, p := range s.pods {
				if g.err != nil || p.gone {
					continue
				}
				var number int32
				if number, g.err = g.w.Template(g.now, &spec); g.err != nil {
					return
				}
				if p.node >= 0 {
					g.nodes[p.node].cpu += p.spec.MilliCPU - spec.MilliCPU
				}
				p.spec = &spec
				g.write(Event{Kind: UpdatePod, Pod: p.number, Template: number})
			}
		})
	}
}

func (g *generator) drawCordons() {
	for range int(cordonsPer * float64(len(g.nodes))) {
		i, at := g.rng.IntN(len(g.nodes)), time.Duration(g.rng.Float64()*float64(g.law.Span))
		set := func(cordoned bool) func() {
			return func() {
				n := &g.nodes[i]
				if n.Unschedulable == cordoned {
					return
				}
				n.Unschedulable = cordoned
				g.write(Event{Kind: UpdateNode, Node: int32(i), Info: new(n.Node)})
			}
		}
		g.plan(at, set(true))
		g.plan(at+time.Duration(cordonFor*float64(g.law.Span)), set(false))
	}
}
