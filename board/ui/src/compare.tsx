import { h, Fragment } from 'preact'
import { Paired } from './api'
import { useWidth } from './canvas'
import { useData, useRuns, Empty } from './runs'
import { number, useParam } from './state'
import { Table } from './table'

// Compare shows the table of a comparison, and its means with their intervals as a picture.
export function Compare() {
  const [runs, error] = useRuns()
  const [run, setRun] = useParam('run')
  const compared = (runs ?? []).filter(r => r.compared)
  const id = run || compared[0]?.id || ''
  const [against, setAgainst] = useParam('against')
  const data = useData(id ? [id] : []).get(id)
  const table = data?.comparison ?? []
  if (error) return <p class="error" role="alert">{error}</p>
  if (!runs) return <p class="empty">Loading…</p>
  if (runs.length === 0) return <Empty />
  if (compared.length === 0) {
    return <p class="empty">No training has a comparison yet. This makes one:<br /><code>go run ./trainer train --algo ppo --env k8s/GangForecast-v0 --compare 40</code></p>
  }
  const [head = [], ...rows] = table
  return <section>
    <div class="bar"><label>Training <select value={id} onChange={e => setRun(e.currentTarget.value)}>{compared.map(r => <option>{r.id}</option>)}</select></label></div>
    {rows.length > 0 && <>
      <Intervals label="means with 95 % intervals" points={means(head, rows)} />
      <Table id="policies" caption={`Policies of ${id}`} columns={head} rows={rows} />
      {data?.paired ? <Differences paired={data.paired} against={against} choose={setAgainst} />
        : <p class="empty">Paired differences need comparison_episodes.csv, which train --compare writes.</p>}
    </>}
  </section>
}

interface Point { name: string; mean: number; low: number; high: number }

// means reads the means with their intervals of a comparison's table.
function means(head: string[], rows: string[][]): Point[] {
  const name = head.indexOf('policy'), mean = head.findIndex(c => c.startsWith('mean ')), interval = head.indexOf('95 % interval')
  if (name < 0 || mean < 0) return []
  return rows.map(r => {
    const [low, high] = (r[interval] ?? '').replace(/[[\]]/g, '').split(', ')
    return { name: r[name], mean: +r[mean], low: low ? +low : +r[mean], high: high ? +high : +r[mean] }
  }).filter(p => isFinite(p.mean) && isFinite(p.low) && isFinite(p.high))
}

// Differences shows by how much each policy differs from a chosen one in the same episodes.
function Differences({ paired, against, choose }: { paired: Paired; against: string; choose: (p: string) => void }) {
  const other = Math.max(0, paired.policies.indexOf(against))
  const points = paired.policies.map((name, i) => ({ name, ...paired.differences[i][other] })).filter((_, i) => i !== other)
  const sorted = [...points].sort((a, b) => a.mean - b.mean)
  const verdict = (p: Point) => p.low > 0 ? 'more' : p.high < 0 ? 'less' : 'no difference shown'
  return <>
    <h2>Paired differences <small>in {paired.metric}, {paired.episodes} episodes that all policies played</small></h2>
    <div class="bar"><label>Against <select id="against" value={paired.policies[other]} onChange={e => choose(e.currentTarget.value)}>{paired.policies.map(p => <option>{p}</option>)}</select></label></div>
    <Intervals label={`differences to ${paired.policies[other]} with 95 % intervals`} points={sorted} zero />
    <Table id="paired" caption={`Difference to ${paired.policies[other]}, mean over the same episodes`} columns={['policy', 'difference', 'low', 'high', 'verdict']}
      rows={points.map(p => [p.name, number(p.mean), number(p.low), number(p.high), verdict(p)])} />
  </>
}

// Intervals draws each policy's mean as a point and its 95 % interval as a line, and zero where it matters.
function Intervals({ label: what, points, zero }: { label: string; points: Point[]; zero?: boolean }) {
  const { box, width: room } = useWidth()
  const least = Math.min(...points.map(p => p.low), zero ? 0 : Infinity), most = Math.max(...points.map(p => p.high), zero ? 0 : -Infinity)
  const row = 22, width = Math.min(760, room), label = Math.min(230, width * .45)
  const x = (v: number) => label + (most > least ? (v - least) / (most - least) : 0.5) * (width - label - 20)
  return <div class="intervals" ref={box} role="region" aria-label={what}>
    {points.length > 0 && <svg class={zero ? 'differences' : 'means'} width={width} height={row * points.length + 30} role="img" aria-label={points.map(p => `${p.name} ${number(p.mean)}`).join(', ')}>
      {zero && <line class="zero" x1={x(0)} x2={x(0)} y1={0} y2={row * points.length + 4} />}
      {points.map((p, i) => <g>
        <text x={label - 10} y={row * i + 16} text-anchor="end">{p.name.slice(-Math.floor(label / 6.8))}</text>
        <line class="interval" x1={x(p.low)} x2={x(p.high)} y1={row * i + 12} y2={row * i + 12} />
        <circle class="mean" cx={x(p.mean)} cy={row * i + 12} r="4"><title>{`${p.name}: ${number(p.mean)} [${number(p.low)}, ${number(p.high)}]`}</title></circle>
      </g>)}
      <text x={label} y={row * points.length + 20}>{least.toPrecision(5)}</text>
      <text x={width - 20} y={row * points.length + 20} text-anchor="end">{most.toPrecision(5)}</text>
    </svg>}
  </div>
}
