import { h, Fragment } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { Columns, Run, RunData, RunUpdate } from './api'
import { Line, Plot } from './plot'
import { duration, number, useParam } from './state'
import { follow, useTopic } from './stream'
import { Table } from './table'

const step = 'time/total_timesteps'

// useRuns lists the trainings, also those that begin later.
export const useRuns = () => useTopic<Run[]>('runs')

// useData follows the chosen trainings: after the first message only new rows come.
export function useData(ids: string[]): Map<string, RunData> {
  const [data, setData] = useState(new Map<string, RunData>())
  useEffect(() => {
    setData(old => new Map([...old].filter(([id]) => ids.includes(id))))
    const ends = ids.map(id => follow(`run:${id}`, (n: RunUpdate & { error?: string }) => {
      if (!n.error) setData(old => new Map([...old, [id, join(old.get(id), n)] as const].sort((a, b) => ids.indexOf(a[0]) - ids.indexOf(b[0]))))
    }))
    return () => ends.forEach(end => end())
  }, [ids.join('\n')])
  return data
}

// join adds what is new of a training to what is known.
function join(old: RunData | undefined, n: RunUpdate): RunData {
  const rows = (a: Columns | undefined, b: Columns, from: number): Columns =>
    from === 0 || !a ? b : { columns: b.columns, values: b.values.map((v, i) => [...a.values[i].slice(0, from), ...v]) }
  return {
    progress: rows(old?.progress, n.progress, n.from.progress), evaluations: rows(old?.evaluations, n.evaluations, n.from.evaluations),
    comparison: n.comparison ?? old?.comparison, config: n.config ?? old?.config, paired: n.paired ?? old?.paired,
  }
}

export function Empty() {
  return <p class="empty">There are no trainings in the folder of logs yet. Start one, and it appears here:<br />
    <code>go run ./trainer train --algo ppo --env classic/CartPole-v1</code></p>
}

// group is a run's folder without the seed, whose curves share a band.
const group = (id: string) => id.replace(/\/seed_\d+$/, '')

export function Runs() {
  const [runs, error] = useRuns()
  const [chosen, choose] = useParam('runs')
  const [tag, setTag] = useParam('tag')
  const [smooth, setSmooth] = useParam('smooth')
  const [filter, setFilter] = useParam('filter')
  const [range, setRange] = useParam('range')
  const ids = chosen ? chosen.split('|') : first(runs ?? [])
  const data = useData(ids)
  const tags = useMemo(() => [...new Set([...data.values()].flatMap(d => [...d.progress.columns, ...d.evaluations.columns.map(c => 'evaluations: ' + c)]))]
    .filter(t => t !== step && t !== 'evaluations: timesteps').sort(), [data])
  const shown = tags.includes(tag) ? tag : tags.includes('eval/mean_reward') ? 'eval/mean_reward' : tags.includes('rollout/ep_rew_mean') ? 'rollout/ep_rew_mean' : tags[0] ?? ''
  const { x, lines } = useMemo(() => curves(data, shown, +smooth || 0), [data, shown, smooth])
  const drawn = useMemo(() => shown === 'eval/mean_reward' ? [...lines, ...levels(data, x.length)] : lines, [data, shown, x, lines])
  if (error) return <p class="error" role="alert">{error}</p>
  if (runs && runs.length === 0) return <Empty />
  const toggle = (id: string) => choose((ids.includes(id) ? ids.filter(i => i !== id) : [...ids, id]).join('|'))
  return <div class="columns">
    <nav aria-label="trainings">
      <label>Filter <input id="filter" type="search" value={filter} onInput={e => setFilter(e.currentTarget.value)} placeholder="press /" /></label>
      <ul>{(runs ?? []).filter(r => r.logged && r.id.includes(filter)).map(r =>
        <li><label><input type="checkbox" checked={ids.includes(r.id)} onChange={() => toggle(r.id)} /> {r.id}</label></li>)}</ul>
    </nav>
    <section>
      <div class="bar">
        <label>Curve <select id="tag" value={shown} onChange={e => setTag(e.currentTarget.value)}>{tags.map(t => <option>{t}</option>)}</select></label>
        <label>Smoothing <input type="range" min="0" max="0.99" step="0.01" value={smooth || '0'} onInput={e => setSmooth(e.currentTarget.value)} /> {smooth || 0}</label>
      </div>
      {x.length > 0 && <Plot title={shown} x={x} xLabel="environment steps" lines={drawn} range={range} setRange={setRange} />}
      <Last data={data} />
    </section>
  </div>
}

// Last shows the last values and the hyperparameters of each training side by side.
function Last({ data }: { data: Map<string, RunData> }) {
  const ids = [...data.keys()]
  const settings = [...new Set([...data.values()].flatMap(d => Object.keys(d.config ?? {})))].sort()
  const last = (d: RunData, name: string) => {
    const column = d.progress.values[d.progress.columns.indexOf(name)] ?? []
    return number([...column].reverse().find(v => v != null))
  }
  const rows = [step, 'time/fps', 'time/time_elapsed', 'rollout/ep_rew_mean', 'eval/mean_reward'].map(n => [n, ...ids.map(i => last(data.get(i)!, n))])
  rows.splice(3, 0, ['episodes/s', ...ids.map(i => episodeRate(data.get(i)!))], ['time left', ...ids.map(i => timeLeft(data.get(i)!))])
  for (const s of settings) rows.push([s, ...ids.map(i => text(data.get(i)!.config?.[s]))])
  return <>{ids.length > 0 && <Table id="last" caption="Last values and hyperparameters" columns={['name', ...ids]} rows={rows} />}</>
}

// column returns the numbers of a column, without gaps.
const column = (d: RunData, name: string) => (d.progress.values[d.progress.columns.indexOf(name)] ?? []).filter(v => v != null)

// episodeRate is how many episodes ended a second: steps a second by the mean length.
function episodeRate(d: RunData): string {
  const fps = column(d, 'time/fps'), length = column(d, 'rollout/ep_len_mean')
  return fps.length && length.length ? number(fps[fps.length - 1] / length[length.length - 1]) : number(null)
}

// timeLeft is that of the remaining steps at the rate so far; a training's settings name their number.
function timeLeft(d: RunData): string {
  const done = column(d, step), elapsed = column(d, 'time/time_elapsed')
  const all = Number(d.config?.n_timesteps), at = done[done.length - 1], seconds = elapsed[elapsed.length - 1]
  if (!isFinite(all) || !(at > 0) || seconds === undefined) return number(null)
  return at >= all ? 'finished' : duration((all - at) * seconds / at)
}

const text = (v: unknown) => v === undefined ? '' : typeof v === 'string' ? v : JSON.stringify(v)

// curves joins the points of all runs on one axis. Runs that differ in their seed only make one line, the mean,
// with the band of least and greatest.
function curves(data: Map<string, RunData>, tag: string, smoothing: number): { x: number[]; lines: Line[] } {
  const points = new Map<string, Map<number, number>[]>()
  for (const [id, d] of data) {
    const [table, at, name]: [Columns, string, string] = tag.startsWith('evaluations: ') ? [d.evaluations, 'timesteps', tag.slice(13)] : [d.progress, step, tag]
    const xs = table.values[table.columns.indexOf(at)], ys = table.values[table.columns.indexOf(name)]
    if (!xs || !ys) continue
    const of = new Map<number, number>()
    let mean: number | null = null
    xs.forEach((x, i) => {
      const y = ys[i]
      if (x == null || y == null) return
      mean = mean == null ? y : smoothing * mean + (1 - smoothing) * y
      of.set(x, mean)
    })
    const g = group(id)
    points.set(g, [...(points.get(g) ?? []), of])
  }
  const x = [...new Set([...points.values()].flat().flatMap(m => [...m.keys()]))].sort((a, b) => a - b)
  const lines: Line[] = []
  for (const [g, seeds] of points) {
    const at = x.map(v => seeds.map(s => s.get(v)).filter(y => y !== undefined))
    const line: Line = { label: g, y: at.map(v => v.length ? v.reduce((a, b) => a + b, 0) / v.length : null) }
    if (seeds.length > 1) {
      line.label += ` (${seeds.length} seeds)`
      line.low = at.map(v => v.length ? Math.min(...v) : null)
      line.high = at.map(v => v.length ? Math.max(...v) : null)
    }
    lines.push(line)
  }
  return { x, lines }
}

// first chooses the newest training, with its other seeds.
function first(runs: Run[]): string[] {
  const logged = runs.filter(r => r.logged).map(r => r.id)
  return logged.filter(id => group(id) === group(logged[0]))
}

// levels draws the returns of the best baseline and of clairvoyant ones in the comparisons as dashed lines.
function levels(data: Map<string, RunData>, n: number): Line[] {
  const found = new Map<string, number>()
  for (const d of data.values()) {
    const [head = [], ...rows] = d.comparison ?? []
    const name = head.indexOf('policy'), mean = head.includes('return') ? head.indexOf('return') : head.indexOf('mean return')
    if (mean < 0) continue
    const baselines = rows.filter(r => !/^(ppo|ppo_lstm|dqn|a2c|reinforce)\b/.test(r[name]) && r[mean] !== '' && isFinite(+r[mean]))
    const knowing = baselines.filter(r => r[name].includes('(clairvoyant)'))
    const best = baselines.filter(r => !knowing.includes(r)).sort((a, b) => +b[mean] - +a[mean])[0]
    for (const row of best ? [best, ...knowing] : knowing) found.set(row[name], +row[mean])
  }
  return [...found].map(([label, y]) => ({ label, y: Array(n).fill(y), dash: true }))
}
