import { h, Fragment } from 'preact'
import { useData, useRuns, Empty } from './runs'
import { useParam } from './state'
import { Table } from './table'

// Compare shows the table of a comparison, and its means with their intervals as a picture.
export function Compare() {
  const [runs, error] = useRuns()
  const [run, setRun] = useParam('run')
  const compared = (runs ?? []).filter(r => r.compared)
  const id = run || compared[0]?.id || ''
  const table = useData(id ? [id] : []).get(id)?.comparison ?? []
  if (error) return <p class="error" role="alert">{error}</p>
  if (runs?.length === 0) return <Empty />
  if (runs && compared.length === 0) {
    return <p class="empty">No training has a comparison yet. This makes one:<br /><code>go run ./trainer train --algo ppo --env k8s/GangForecast-v0 --compare 40</code></p>
  }
  const [head = [], ...rows] = table
  return <section>
    <div class="bar"><label>Training <select value={id} onChange={e => setRun(e.currentTarget.value)}>{compared.map(r => <option>{r.id}</option>)}</select></label></div>
    {rows.length > 0 && <>
      <Intervals head={head} rows={rows} />
      <Table caption={`Policies of ${id}`} columns={head} rows={rows} />
    </>}
  </section>
}

// Intervals draws each policy's mean as a point and its 95 % interval as a line.
function Intervals({ head, rows }: { head: string[]; rows: string[][] }) {
  const name = head.indexOf('policy'), mean = head.findIndex(c => c.startsWith('mean ')), interval = head.indexOf('95 % interval')
  const points = rows.map(r => {
    const [low, high] = (r[interval] ?? '').replace(/[[\]]/g, '').split(', ')
    return { name: r[name], mean: +r[mean], low: low ? +low : +r[mean], high: high ? +high : +r[mean] }
  }).filter(p => isFinite(p.mean) && isFinite(p.low) && isFinite(p.high))
  if (name < 0 || mean < 0 || points.length === 0) return null
  const least = Math.min(...points.map(p => p.low)), most = Math.max(...points.map(p => p.high))
  const row = 22, label = 230, width = 760
  const x = (v: number) => label + (most > least ? (v - least) / (most - least) : 0.5) * (width - label - 20)
  return <div class="scroll" tabIndex={0} role="region" aria-label="means with 95 % intervals">
    <svg width={width} height={row * points.length + 30} role="img" aria-label={points.map(p => `${p.name} ${p.mean}`).join(', ')}>
      {points.map((p, i) => <g>
        <text x={label - 10} y={row * i + 16} text-anchor="end">{p.name}</text>
        <line class="interval" x1={x(p.low)} x2={x(p.high)} y1={row * i + 12} y2={row * i + 12} />
        <circle class="mean" cx={x(p.mean)} cy={row * i + 12} r="4"><title>{`${p.name}: ${p.mean} [${p.low}, ${p.high}]`}</title></circle>
      </g>)}
      <text x={label} y={row * points.length + 20}>{least.toPrecision(5)}</text>
      <text x={width - 20} y={row * points.length + 20} text-anchor="end">{most.toPrecision(5)}</text>
    </svg>
  </div>
}
