import { h, Fragment } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { get } from './api'
import { Plot } from './plot'
import { number, time, useParam } from './state'
import { useTopic } from './stream'
import { Table } from './table'

interface Estimate { value: number | null; low: number | null; high: number | null }
interface World { name: string; placed_pods: number; values: Estimate[]; differences?: (Estimate & { verdict: string })[]; series: (number | null)[][]; agreement?: Estimate; asked?: number }
interface Disagreement { at: string; pod: string; node: string; cost: Costs; choices: { policy: string; node: string; cost: Costs }[] }
interface Costs { imbalance: number | null; fragmentation?: number | null }
interface Report {
  start: string; end: string; block_s: number; nodes: number; pods: number
  metrics: { name: string; unit: string; better: string; meaning: string }[]
  recorded: World
  policies: World[]
  disagreements?: Disagreement[]
  disagreed?: number
}

// Shadow shows what trainer kwok shadow has found: where a policy disagrees with the scheduler that binds, and what each
// choice costs.
export function Shadow() {
  const [reports, error] = useTopic<{ id: string; modified: string }[]>('shadows')
  const [id, setID] = useParam('report')
  const [metric, setMetric] = useParam('metric')
  const [report, setReport] = useState<Report | null>(null)
  const [failed, setFailed] = useState('')
  const chosen = reports?.find(r => r.id === id) ?? reports?.[0]
  useEffect(() => {
    if (!chosen) return
    get<Report>('/api/shadows/' + encodeURIComponent(chosen.id)).then(r => { setReport(r); setFailed('') }, e => { setReport(null); setFailed(e.message) })
  }, [chosen?.id, chosen?.modified])
  if (error) return <p class="error" role="alert">{error}</p>
  if (!reports) return <p class="empty">Loading…</p>
  if (reports.length === 0) {
    return <p class="empty">There is no report of a shadow yet. This makes one, which appears here:<br />
      <code>go run ./trainer kwok shadow --trace day.jsonl.zst --policy Greedy --json &gt; logs/shadow.json</code></p>
  }
  return <section class="shadow">
    <div class="bar"><label>Report <select id="report" value={chosen!.id} onChange={e => setID(e.currentTarget.value)}>{reports.map(r => <option>{r.id}</option>)}</select></label></div>
    {failed && <p class="error" role="alert">{failed}</p>}
    {report && <View report={report} metric={metric} setMetric={setMetric} />}
  </section>
}

const estimate = (e?: Estimate) => !e ? '' : e.low == null ? number(e.value) : `${number(e.value)} [${number(e.low)}, ${number(e.high)}]`

function View({ report: r, metric, setMetric }: { report: Report; metric: string; setMetric: (m: string) => void }) {
  const at = Math.max(0, r.metrics.findIndex(m => m.name === metric)), m = r.metrics[at]
  const seconds = r.block_s * (r.recorded.series[at]?.length ?? 0)
  const [unit, per] = seconds > 7200 ? ['hours', 3600] as const : seconds > 120 ? ['minutes', 60] as const : ['seconds', 1] as const
  const blocks = r.recorded.series[at]?.map((_, i) => +(i * r.block_s / per).toFixed(4)) ?? []
  const worlds = [r.recorded, ...r.policies]
  const rows = r.metrics.map((m, i) => [`${m.name} (${m.unit})`, estimate(r.recorded.values[i]), ...r.policies.flatMap(p => [estimate(p.values[i]), estimate(p.differences?.[i]), p.differences?.[i].verdict ?? ''])])
  const fragments = r.disagreements?.some(d => d.cost.fragmentation != null)
  return <>
    <h2>{time(r.start)} to {time(r.end)} <small>{r.nodes} nodes, {r.pods} pods</small></h2>
    <ul class="agreement">{r.policies.map(p => <li>{p.name} agrees with {estimate(p.agreement)} % of {p.asked} decisions</li>)}</ul>
    <Table id="worlds" caption="What was and what would have been, in the long run" columns={['metric', 'recorded', ...r.policies.flatMap(p => [p.name, 'difference', 'verdict'])]} rows={rows} />
    <div class="bar"><label>Metric <select id="metric" value={m.name} onChange={e => setMetric(e.currentTarget.value)}>{r.metrics.map(m => <option>{m.name}</option>)}</select></label><span class="empty">{m.meaning}; {m.better} is better</span></div>
    {blocks.length > 0 && <Plot title={`${m.name}, ${m.unit}`} x={blocks} xLabel={unit} lines={worlds.map(w => ({ label: w.name, y: w.series[at] }))} height={240} />}
    {!r.disagreements ? <p class="empty">This report has no decisions one by one: it is of an earlier version.</p>
      : r.disagreements.length === 0 ? <p class="empty">No policy disagrees with the scheduler.</p>
        : <Table id="disagreements" caption={`Where policies disagree: ${r.disagreed ?? r.disagreements.length} decisions${(r.disagreed ?? 0) > r.disagreements.length ? `, of which the ${r.disagreements.length} that cost most` : ''}; costs are the imbalance of the cluster in % just after each choice${fragments ? ', and the fragmentation of GPUs in %' : ''}`}
          columns={['at', 'pod', 'recorded', 'cost', ...(fragments ? ['fragmentation'] : []), 'policy', 'would', 'cost', ...(fragments ? ['fragmentation'] : []), 'costs more']}
          rows={r.disagreements.flatMap(d => d.choices.filter(c => c.node !== d.node).map(c => [time(d.at), d.pod, d.node, number(d.cost.imbalance), ...(fragments ? [number(d.cost.fragmentation)] : []),
            c.policy, c.node, number(c.cost.imbalance), ...(fragments ? [number(c.cost.fragmentation)] : []), number((c.cost.imbalance ?? 0) - (d.cost.imbalance ?? 0))]))} />}
  </>
}
