import { h, Fragment } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { Chart, Environment, Episode, EpisodeHead, EpisodeUpdate, Explanation, Frame, get, PageInfo, post, useOrder } from './api'
import { Nodes } from './cluster'
import { Gantt } from './gantt'
import { Grids } from './grid'
import { eventColour, Plot } from './plot'
import { bytes, cores, number, useParam } from './state'
import { follow } from './stream'
import { Why } from './why'

// Play shows episodes: one, or two that forked from one another.
export function Play({ page }: { page: PageInfo }) {
  const [envs, setEnvs] = useState<Environment[] | null>(null)
  const [error, setError] = useState('')
  const [ids, setIDs] = useParam('episodes')
  const [kept, setKept] = useState<EpisodeHead[]>([])
  useEffect(() => { get<Environment[]>('/api/environments').then(setEnvs, e => setError(e.message)) }, [])
  useEffect(() => { get<EpisodeHead[]>('/api/episodes').then(setKept, () => {}) }, [ids])
  if (error) return <p class="error" role="alert">{error}</p>
  if (!envs) return <p class="empty">Loading…</p>
  if (envs.length === 0) return <p class="empty">This page shows a server and plays nothing itself. Start one that plays:<br /><code>go run ./trainer board</code></p>
  const shown = ids ? ids.split('|') : []
  return <section>
    {page.control ? <Start envs={envs} begun={id => setIDs(id)} /> : <p class="empty">This page is for looking only. With control, visitors play episodes: <code>go run ./trainer board --allow-control</code></p>}
    {shown.length === 0 && kept.length > 0 && <p class="kept">Episodes: {kept.map(e => <> <button type="button" class="link" onClick={() => setIDs(e.id)}>{e.id}: {e.policy.split('/').slice(-2).join('/')} on {e.env}</button></>)}</p>}
    <div class={shown.length > 1 ? 'two' : ''}>
      {shown.map(id => <World key={id} id={id} envs={envs} control={page.control} forked={f => setIDs([shown[0], f].join('|'))} ended={() => setIDs(shown.filter(s => s !== id).join('|'))} />)}
    </div>
  </section>
}

// perSecond is how many steps a second × 1 plays.
const perSecond = 20

// policiesOf lists who can play an environment.
const policiesOf = (e?: Environment) => e ? [...e.baselines.map(b => b.name), ...(e.models ?? [])] : []

// Start begins an episode.
function Start({ envs, begun }: { envs: Environment[]; begun: (id: string) => void }) {
  const [env, setEnv] = useParam('env')
  const [policy, setPolicy] = useParam('policy')
  const [seed, setSeed] = useParam('seed')
  const [options, setOptions] = useParam('options')
  const [error, setError] = useState('')
  const spec = envs.find(e => e.id === env) ?? envs.find(e => e.id === 'k8s/PodBalance-v0') ?? envs[0]
  const who = policiesOf(spec)
  const chosen = who.includes(policy) ? policy : who[0] ?? 'random'
  const begin = async (e: Event) => {
    e.preventDefault()
    try {
      const given = parseOptions(options)
      const ep = await post<Episode>('/api/episodes', { env: spec.id, policy: chosen, seed: +seed || 0, options: { ...spec.held_out, ...given } })
      setError('')
      begun(ep.id)
    } catch (err) {
      setError((err as Error).message)
    }
  }
  return <form class="bar" onSubmit={begin}>
    <label>Environment <select id="env" value={spec.id} onChange={e => setEnv(e.currentTarget.value)}>{envs.map(e => <option>{e.id}</option>)}</select></label>
    <label>Policy <select id="policy" value={chosen} onChange={e => setPolicy(e.currentTarget.value)}>{[...who, 'random'].map(p => <option>{p}</option>)}</select></label>
    <label>Seed <input id="seed" type="number" min="0" value={seed || '0'} onInput={e => setSeed(e.currentTarget.value)} /></label>
    <label>Options <input id="options" value={options} placeholder="pods:mixed cpu_load:0.9" onInput={e => setOptions(e.currentTarget.value)}
      title={spec.options.map(o => `${o.name}: ${o.doc}`).join('\n')} /></label>
    <button id="begin" type="submit">Begin</button>
    {error && <p class="error" role="alert">{error}</p>}
  </form>
}

// parseOptions reads name:value pairs as the command line does.
export function parseOptions(text: string): Record<string, unknown> {
  const options: Record<string, unknown> = {}
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const i = word.indexOf(':')
    if (i < 1) throw new Error(`option ${word}, want name:value`)
    const value = word.slice(i + 1)
    try {
      options[word.slice(0, i)] = JSON.parse(value)
    } catch {
      options[word.slice(0, i)] = value
    }
  }
  return options
}

// World shows one episode.
function World({ id, envs, control, forked, ended }: { id: string; envs: Environment[]; control: boolean; forked: (id: string) => void; ended: () => void }) {
  const [ep, setEp] = useState<Episode | null>(null)
  const [why, setWhy] = useState<Explanation | null>(null)
  const [lookAt, setStep] = useParam('step.' + id)
  const at = lookAt === '' ? -1 : +lookAt, setAt = (k: number) => setStep(k < 0 ? '' : String(k)) // the step looked at; -1 is the last
  const [speed, setSpeed] = useState(1)
  const [error, setError] = useState('')
  const [missing, setMissing] = useState('') // why there is no such episode
  const [node, setNode] = useParam('node.' + id)
  const picked = ep?.nodes.findIndex(n => n.name === node) ?? -1, pick = (i: number) => setNode(ep?.nodes[i]?.name ?? '')
  const [filter, setFilter] = useParam('nodes')
  const [flat, setFlat] = useParam('flat')
  const [ask, setAsk] = useParam('ask.' + id)
  const asked = useMemo(() => ask ? ask.split('|') : [], [ask]), setAsked = (p: string[]) => setAsk(p.join('|'))
  const order = useOrder()
  const env = envs.find(e => e.id === ep?.env)
  const fail = (e: Error) => setError(e.message)
  useEffect(() => follow(`episode:${id}`, (n: EpisodeUpdate) => {
    setMissing(n.id ? '' : n.error ?? '')
    if (n.id && n.error) setError(n.error)
    if (n.id) setEp(old => n.nodes ? { ...n, nodes: n.nodes } : old && { ...n, nodes: old.nodes, returns: [...old.returns.slice(0, n.returns_from), ...n.returns] })
  }), [id])
  const playing = (ep?.steps_per_s ?? 0) > 0
  const play = (rate: number) => { setAt(-1); post<Episode>(`/api/episodes/${id}/play`, { steps_per_s: rate }).then(() => setError(''), fail) }
  const step = () => { setAt(-1); post<Episode>(`/api/episodes/${id}/step`, { steps: 1 }).then(() => setError(''), fail) }
  const scrub = (to: number) => { if (playing && control) play(0); setAt(to) }
  const shown = at < 0 ? ep?.steps ?? 0 : at
  useEffect(() => {
    if (!ep || playing && at < 0) return
    const query = new URLSearchParams({ step: String(shown) })
    if (picked >= 0) query.set('node', String(picked))
    if (asked.length) query.set('policies', asked.join('|'))
    const newest = order()
    get<Explanation>(`/api/episodes/${id}/why?${query}`).then(w => { if (newest()) setWhy(w) }, fail)
  }, [ep, shown, asked, picked, playing, id])
  const steps = useMemo(() => Array.from({ length: (ep?.returns.length ?? 0) + 1 }, (_, i) => i), [ep?.returns.length])
  const lines = useMemo(() => [{ label: 'return', y: [0, ...(ep?.returns ?? [])] }], [ep?.returns])
  if (missing && !ep) return <p class="error" role="alert">{missing} <button type="button" onClick={ended}>Close</button></p>
  if (!ep) return <p class="empty">Loading…</p>
  const current = why?.frame.step === shown && !(playing && at < 0) ? why : null
  const frame: Frame = current?.frame ?? ep.frame
  const masked = new Set((current?.rows ?? []).map((r, i) => r[r.length - 1] ? i : -1).filter(i => i >= 0))
  const taken = current?.taken?.[0]
  return <article class="world" data-episode={id}>
    <h2>{ep.policy.split('/').slice(-2).join('/')} <small>{ep.env}, seed {ep.seed}</small> <button type="button" onClick={ended} aria-label="close this episode">×</button></h2>
    <div class="bar">
      <button type="button" class="play" disabled={!!ep.done || !control} onClick={() => play(playing ? 0 : speed * perSecond)}>{playing ? 'Pause' : 'Play'}</button>
      <button type="button" class="step" disabled={!!ep.done || !control} onClick={step}>Step</button>
      <label>× <select value={String(speed)} disabled={!control} onChange={e => { setSpeed(+e.currentTarget.value); if (playing) play(+e.currentTarget.value * perSecond) }}>{[1, 2, 5, 20, 100].map(s => <option>{s}</option>)}</select></label>
      <label class="wide">Step <output class="at">{frame.step}</output> of {ep.steps}
        <input class="scrub" type="range" min="0" max={ep.steps} value={shown} onInput={e => scrub(+e.currentTarget.value)} /></label>
      <span>reward {number(frame.reward)}, return <output class="return">{number(frame.return)}</output>{ep.done && `, ${ep.done}`}{frame.invalid && ', the action was masked out'}</span>
    </div>
    {(error || missing) && <p class="error" role="alert">{error || missing}</p>}
    <p class="facts">{ep.columns.map((c, i) => <span key={c}>{c} {number(frame.info[i])}</span>)}</p>
    {ep.nodes.length > 0 && <>
      <Nodes nodes={ep.nodes} use={frame} masked={masked} taken={taken} picked={picked} pick={pick} filter={filter} setFilter={setFilter} flat={flat} setFlat={setFlat} />
      {picked >= 0 && <p class="facts">{ep.nodes[picked].name}: {cores(ep.nodes[picked].cpu_m)} CPU, {bytes(ep.nodes[picked].memory_bytes)} memory{ep.nodes[picked].gpus > 0 && `, ${ep.nodes[picked].gpus} × ${ep.nodes[picked].gpu_model || 'GPU'}`}{ep.nodes[picked].rack && `, ${ep.nodes[picked].rack}`}</p>}
      <p>Unscheduled: {frame.pending === 0 ? 'none' : <>{frame.pending}: {frame.unscheduled.join(', ')}{frame.pending > frame.unscheduled.length && ' …'}</>}</p>
    </>}
    {frame.text && <pre class="text" tabIndex={0}>{frame.text}</pre>}
    {frame.spans && <Gantt spans={frame.spans} />}
    {frame.grids && <Grids grids={frame.grids} />}
    {frame.chart && <Panels chart={frame.chart} />}
    <Plot title={`Return of ${ep.policy}`} x={steps} xLabel="step" lines={lines} height={160} mark={shown} pick={scrub} />
    {env && current && <Why id={id} why={current} nodes={ep.nodes} picked={picked} pick={pick} policies={policiesOf(env)} asked={asked} ask={setAsked}
      fork={control ? policy => post<Episode>(`/api/episodes/${id}/fork`, { step: shown, policy }).then(f => forked(f.id), fail) : undefined} />}
  </article>
}

// Panels draws a task's own chart, such as usage, request and limit over time.
function Panels({ chart }: { chart: Chart }) {
  const events = chart.events ?? []
  return <>{chart.panels.map(p => <Plot title={p.y_label} x={chart.x} xLabel={chart.x_label} lines={p.lines.map(l => ({ label: l.name, y: l.y }))} height={180} events={events} />)}
    {events.length > 0 && <p class="facts events">Ticks: {events.map((e, i) => <span><i style={{ background: eventColour(i) }} /> {e.name}: {e.x.length}</span>)}</p>}</>
}
