import { h } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { ClusterInfo, get, NodePod, PageInfo, PodWhy, useOrder } from './api'
import { Nodes } from './cluster'
import { bytes, cores, number, time, useParam } from './state'
import { useTopic } from './stream'
import { Table } from './table'
import { Why } from './why'

// Live shows a running cluster and what its scheduler decides.
export function Live({ page }: { page: PageInfo }) {
  const [info, error] = useTopic<ClusterInfo>(page.cluster ? 'cluster' : '')
  const [pod, setPod] = useParam('pod')
  const [ask, setAsk] = useParam('ask')
  const [filter, setFilter] = useParam('nodes')
  const [flat, setFlat] = useParam('flat')
  const [chosen, setChosen] = useParam('node')
  const [pods, setPods] = useState<NodePod[]>([])
  const [why, setWhy] = useState<PodWhy | null>(null)
  const [failed, setFailed] = useState('')
  const asked = useMemo(() => ask ? ask.split('|') : [], [ask])
  const order = useOrder()
  const waits = info?.waiting.some(w => w.pod === pod)
  useEffect(() => {
    if (!pod) return
    const newest = order()
    get<PodWhy>(`/api/cluster/why?${new URLSearchParams({ pod, policies: ask })}`)
      .then(w => { if (newest()) { setWhy(w); setFailed('') } }, e => { if (newest()) { setWhy(null); setFailed(e.message) } })
  }, [pod, ask, waits ? info?.at : '', info === null])
  const podsOrder = useOrder()
  useEffect(() => {
    setPods([])
  }, [chosen])
  useEffect(() => {
    if (!chosen || !info) return
    const newest = podsOrder()
    get<NodePod[]>(`/api/cluster/pods?${new URLSearchParams({ node: chosen })}`).then(p => { if (newest()) setPods(p) }, e => { if (newest()) setFailed(e.message) })
  }, [chosen, info?.at])
  if (!page.cluster) {
    return <p class="empty">This page watches no scheduler. This one does:<br /><code>go run ./trainer kwok schedule --policy Greedy --board 127.0.0.1:6007</code><br />This one watches the cluster's own:<br /><code>go run ./trainer kwok shadow --record cluster.jsonl.zst --policy Greedy --board 127.0.0.1:6007</code></p>
  }
  if (error) return <p class="error" role="alert">{error}</p>
  if (!info) return <p class="empty">Loading…</p>
  const nodeOf = (name: string) => info.nodes.findIndex(n => n.name === name)
  const taken = why?.node ? nodeOf(why.node) : undefined
  const masked = new Set((why?.rows ?? []).filter(r => r[r.length - 1]).map(r => nodeOf(r[0])))
  const picked = nodeOf(chosen), node = info.nodes[picked], pick = (i: number) => setChosen(info.nodes[i]?.name ?? '')
  const rated = info.decisions.some(d => d.policy_score != null) // rules rate no nodes
  const score = (v: number | null) => v == null ? '' : number(v)
  const differs = new Set(info.decisions.filter(d => d.default_score! < d.default_best!).map(d => d.pod)) // a draw is no difference
  const link = (name: string) => <button type="button" class="link pod" onClick={() => setPod(name)}>{name}</button>
  const explained = new Set([...info.decisions.map(d => d.pod), ...info.waiting.map(w => w.pod)])
  return <section class="live">
    <h2>{info.scheduler} <small>{info.shadow ? 'compared with' : 'by'} {info.policy.split('/').slice(-2).join('/')}, {time(info.at)}</small></h2>
    <p class="facts"><span>nodes {info.nodes.length}</span><span>pods {info.pods.reduce((a, b) => a + b, 0)}</span>
      <span>placed <output class="placed">{info.placed}</output></span><span>of them elsewhere than kube-scheduler's default {info.disagreed}</span></p>
    {info.nodes.length === 0 ? <p class="empty">The cluster has no nodes for this scheduler. <code>go run ./trainer kwok runsim --node_count 3</code> makes some.</p>
      : <Nodes nodes={info.nodes} use={info} masked={masked} taken={taken} picked={picked} pick={pick} filter={filter} setFilter={setFilter} flat={flat} setFlat={setFlat} />}
    {node && <p class="facts">{node.name}: {cores(node.cpu_m)} CPU ({number(100 * info.cpu[picked])} %), {bytes(node.memory_bytes)} memory ({number(100 * info.memory[picked])} %), {info.pods[picked]} pods{node.gpus > 0 && `, ${node.gpus} × ${node.gpu_model || 'GPU'}`}{node.rack && `, ${node.rack}`}</p>}
    {node && <Table id="pods" caption={`Pods of ${node.name}, now and before`} columns={['pod', 'phase', 'CPU', 'memory', ...(node.gpus ? ['GPUs'] : []), 'from', 'to']}
      rows={pods.map(p => [p.pod, p.phase, cores(p.cpu_m), bytes(p.memory_bytes), ...(node.gpus ? [number(p.gpus)] : []), time(p.from), p.to ? time(p.to) : ''])} cell={(t, r, i) => i === 0 && explained.has(t) ? link(t) : t} />}
    {info.pending === 0 ? <p>Unscheduled: none</p>
      : <Table id="waiting" caption={`Unscheduled: ${info.pending}${info.pending > info.waiting.length ? `, of which the first ${info.waiting.length}` : ''}`} columns={['pod', 'scheduler', 'since', 'why']}
        rows={info.waiting.map(w => [w.pod, w.scheduler, time(w.since), w.message])} cell={(t, _, i) => i === 0 ? link(t) : t} />}
    {failed && <p class="error" role="alert">{failed}</p>}
    {why && <article class="decision"><h2>{why.pod} <small>{why.node ? `on ${why.node}, ${time(why.at)}` : 'waits'}</small></h2>
      {why.message && <p class="message">{why.message}</p>}
      <Why id="live" why={{ ...why, taken: why.node ? [why.nodes.indexOf(why.node)] : null }} nodes={why.nodes.map(name => info.nodes[nodeOf(name)] ?? { name, cpu_m: 0, memory_bytes: 0, gpus: 0 })}
        picked={node ? why.nodes.indexOf(node.name) : -1} pick={i => pick(nodeOf(why.nodes[i]))} policies={info.baselines} asked={asked} ask={p => setAsk(p.join('|'))} /></article>}
    {info.decisions.length === 0 ? <p class="empty">The scheduler has placed no pod since this page's program began.</p>
      : <Table id="decisions" caption="Decisions, the newest first: what the policy and kube-scheduler's default would choose, and their scores of the node that the pod got" columns={['pod', 'node', 'policy would', 'default would', ...(rated ? ['policy score'] : []), 'default score', "default's best score", 'at']}
        rows={info.decisions.map(d => [d.pod, d.node, d.policy, d.default, ...(rated ? [score(d.policy_score)] : []), score(d.default_score), score(d.default_best), time(d.at)])}
        mark={r => r[0] === pod ? 'picked' : differs.has(r[0]) ? 'differs' : ''} cell={(t, _, i) => i === 0 ? link(t) : t} />}
  </section>
}
