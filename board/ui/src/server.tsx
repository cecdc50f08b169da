import { h, Fragment } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { Plot } from './plot'
import { number } from './state'

const every = 1000 // milliseconds between samples
const kept = 300 // samples

// A Sample holds Prometheus' figures at a time: by name with labels.
interface Sample { at: number; values: Map<string, number> }

// Server shows the load of the server that this page comes from, by its own metrics.
export function Server() {
  const [samples, setSamples] = useState<Sample[]>([])
  const [error, setError] = useState('')
  useEffect(() => {
    const look = async () => {
      if (document.hidden) return
      try {
        const r = await fetch('/api/metrics')
        if (r.status === 404) throw new Error('This page comes from trainer board, which serves no clients. go run ./server --board shows a server.')
        if (!r.ok) throw new Error(`${r.status}: ${await r.text()}`)
        const sample = { at: performance.now() / 1000, values: parse(await r.text()) }
        setSamples(s => [...s.slice(1 - kept), sample])
        setError('')
      } catch (e) {
        setError((e as Error).message)
      }
    }
    look()
    const timer = setInterval(look, every)
    return () => clearInterval(timer)
  }, [])
  const drawn = useMemo(() => curves(samples), [samples])
  if (error && samples.length === 0) return <p class="empty" role="alert">{error}</p>
  if (samples.length === 0) return <p class="empty">Loading…</p>
  const last = samples[samples.length - 1].values, now = drawn.steps.length - 1
  const refused = [...last].filter(([k]) => k.startsWith('kubernasium_errors_total')).map(([k, v]) => `${k.replace(/.*code="(.*)".*/, '$1')} ${v}`)
  const facts: [string, string][] = [
    ['sessions', number(last.get('kubernasium_sessions'))],
    ['environments', number(last.get('kubernasium_envs'))],
    ['environment steps/s', number(drawn.steps[now])],
    ['requests/s', number(drawn.requests[now])],
    ['p50 of a step, ms', number(drawn.p50[now])],
    ['p99 of a step, ms', number(drawn.p99[now])],
    ['memory, MiB', number((last.get('process_resident_memory_bytes') ?? 0) / 2 ** 20)],
    ['goroutines', number(last.get('go_goroutines'))],
    ['refused', refused.join(', ') || 'none'],
  ]
  return <section>
    {error && <p class="error" role="alert">{error}</p>}
    <dl class="server">{facts.map(([k, v]) => <><dt>{k}</dt><dd data-fact={k}>{v}</dd></>)}</dl>
    <Plot title="Environment steps a second" x={drawn.x} xLabel="seconds" lines={drawn.rateLines} height={220} />
    <Plot title="Milliseconds of a step" x={drawn.x} xLabel="seconds" lines={drawn.timeLines} height={220} />
  </section>
}

// parse reads Prometheus' text format.
export function parse(text: string): Map<string, number> {
  const values = new Map<string, number>()
  for (const line of text.split('\n')) {
    const m = /^([a-zA-Z_:][\w:]*(?:\{.*\})?) (\S+)/.exec(line)
    if (m) values.set(m[1], +m[2].replace('+Inf', 'Infinity'))
  }
  return values
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
