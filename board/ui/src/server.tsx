import { h, Fragment } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { Plot } from './plot'
import { PageInfo, SessionList } from './api'
import { number } from './state'
import { follow, useTopic } from './stream'
import { Table } from './table'

const kept = 300 // samples

// A Sample holds Prometheus' figures at a time: by name with labels.
interface Sample { at: number; values: Map<string, number> }

// Server shows the load of the server that this page comes from, by its own metrics.
export function Server({ page }: { page: PageInfo }) {
  const [samples, setSamples] = useState<Sample[]>([])
  useEffect(() => !page.server ? undefined : follow('metrics', (d: { at_s: number; values: Record<string, number> }) =>
    setSamples(s => [...s.slice(1 - kept), { at: d.at_s, values: new Map(Object.entries(d.values)) }])), [page.server])
  const [list, failed] = useTopic<SessionList>(page.server ? 'sessions' : '')
  const drawn = useMemo(() => curves(samples), [samples])
  if (!page.server) return <p class="empty">This page comes from trainer board, which serves no clients. <code>go run ./server --board</code> shows a server.</p>
  if (samples.length === 0) return <p class="empty">Loading…</p>
  const last = samples[samples.length - 1].values, now = drawn.steps.length - 1
  const refused = [...last].filter(([k]) => k.startsWith('kubernasium_errors_total')).map(([k, v]) => `${k.replace(/.*code="(.*)".*/, '$1')} ${v}`)
  const facts: [string, string][] = [
    ['sessions', number(last.get('kubernasium_sessions'))],
    ['environments', number(last.get('kubernasium_envs'))],
    ['environment steps/s', number(drawn.steps[now])],
    ['requests/s', number(drawn.requests[now])],
    ['requests waiting', number(last.get('kubernasium_requests_waiting'))],
    ['p50 of a step, ms', number(drawn.p50[now])],
    ['p99 of a step, ms', number(drawn.p99[now])],
    ['memory, MiB', number((last.get('process_resident_memory_bytes') ?? 0) / 2 ** 20)],
    ['goroutines', number(last.get('go_goroutines'))],
    ['refused', refused.join(', ') || 'none'],
  ]
  return <section>
    <dl class="server" data-samples={samples.length}>{facts.map(([k, v]) => <><dt>{k}</dt><dd data-fact={k}>{v}</dd></>)}</dl>
    <Plot title="Environment steps a second" x={drawn.x} xLabel="seconds" lines={drawn.rateLines} height={220} />
    <Plot title="Milliseconds of a step" x={drawn.x} xLabel="seconds" lines={drawn.timeLines} height={220} />
    <Sessions list={list} error={failed} />
  </section>
}

// Sessions lists the environments that clients have open.
function Sessions({ list, error }: { list: SessionList | null; error: string }) {
  if (error) return <p class="error" role="alert">{error}</p>
  if (!list) return <p class="empty">Loading…</p>
  if (list.open === 0) return <p class="empty">No client has a session. This one does: <code>{`go run ./trainer eval --env classic/CartPole-v1 --baseline random --url ws://${location.host}`}</code></p>
  const state = (s: SessionList['sessions'][0]) => !s.connected ? 'waits for its client' : s.running ? `runs a request${s.waiting ? `, ${s.waiting} wait` : ''}` : 'idle'
  return <Table id="sessions" caption={`Sessions: ${list.open}${list.open > list.sessions.length ? `, of which the ${list.sessions.length} with most environments` : ''}; steps are of all environments in a row`}
    columns={['session', 'environment', 'number', 'steps', 'now']}
    rows={list.sessions.flatMap(s => s.environments.length ? s.environments.map(e => [s.id, e.env, String(e.num_envs), String(e.steps), state(s)]) : [[s.id, 'none', '', '', state(s)]])}
    cell={(t, _, i) => i === 0 ? <code>{t}</code> : t} />
}

function curves(samples: Sample[]) {
  const x: number[] = [], steps: (number | null)[] = [], requests: (number | null)[] = [], p50: (number | null)[] = [], p99: (number | null)[] = []
  samples.forEach((s, i) => {
    x.push(+(s.at - samples[0].at).toFixed(2))
    const before = samples[Math.max(0, i - 1)], seconds = s.at - before.at
    const rate = (name: string) => i === 0 ? null : ((s.values.get(name) ?? 0) - (before.values.get(name) ?? 0)) / seconds
    steps.push(rate('kubernasium_env_steps_total'))
    requests.push(rate('kubernasium_requests_total'))
    p50.push(quantile(before.values, s.values, 0.5))
    p99.push(quantile(before.values, s.values, 0.99))
  })
  return {
    x, steps, requests, p50, p99,
    rateLines: [{ label: 'environment steps/s', y: steps }, { label: 'requests/s', y: requests }],
    timeLines: [{ label: 'p50', y: p50 }, { label: 'p99', y: p99 }],
  }
}

// quantile returns the quantile in milliseconds of the steps between two samples, by interpolation in the bucket that
// holds it, as Prometheus' histogram_quantile does; null if there were none.
function quantile(before: Map<string, number>, after: Map<string, number>, q: number): number | null {
  const buckets = [...after].flatMap(([k, v]) => {
    const m = /^kubernasium_step_seconds_bucket\{.*le="([^"]+)".*\}$/.exec(k)
    return m ? [{ le: m[1] === '+Inf' ? Infinity : +m[1], n: v - (before.get(k) ?? 0) }] : []
  }).sort((a, b) => a.le - b.le)
  const all = buckets[buckets.length - 1]?.n ?? 0
  if (all === 0) return null
  const rank = q * all, i = buckets.findIndex(b => b.n >= rank)
  const low = i > 0 ? buckets[i - 1] : { le: 0, n: 0 }
  if (buckets[i].le === Infinity) return low.le * 1000
  return (low.le + (buckets[i].le - low.le) * (rank - low.n) / (buckets[i].n - low.n)) * 1000
}
