import { useRef } from 'preact/hooks'

// The JSON routes of docs/board.md.

export interface Run { id: string; modified: string; logged: boolean; compared: boolean }
export interface SessionList { open: number; sessions: { id: string; connected: boolean; running: boolean; waiting: number; environments: { env: string; num_envs: number; steps: number }[] }[] }
export interface Columns { columns: string[]; values: (number | null)[][] }
export interface RunData {
  progress: Columns
  evaluations: Columns
  comparison?: string[][]
  config?: Record<string, unknown>
  paired?: Paired
}
export interface RunUpdate extends RunData { from: { progress: number; evaluations: number } }
export interface Difference { mean: number; low: number; high: number }
export interface Paired { metric: string; episodes: number; policies: string[]; differences: Difference[][] }
export interface PageInfo { control: boolean; episodes: boolean; logs: boolean; server: boolean; cluster: boolean }
export interface Option { name: string; type: string; default: unknown; doc: string; min?: number; max?: number; one_of?: string[] }
export interface Environment {
  id: string
  doc: string
  options: Option[]
  held_out: Record<string, unknown> | null
  baselines: { name: string; doc: string }[]
  models: string[] | null
  nodes: boolean
}
export interface NodeInfo { name: string; cpu_m: number; memory_bytes: number; gpus: number; gpu_model?: string; rack?: string }
export interface Use { cpu: number[]; memory: number[]; pods: number[]; gpus: number[][] }
export interface Chart { title: string; x_label: string; x: number[]; panels: { y_label: string; lines: { name: string; y: (number | null)[] }[] }[]; events: { name: string; x: number[] }[] | null }
export interface Span { row: string; from_s: number; to_s: number; kind: string; label: string }
export interface Grid { title: string; columns: string[]; rows: string[]; values: (number | null)[][]; full: number[] }
export interface Frame extends Use {
  step: number
  action: number[] | null
  invalid: boolean
  reward: number
  return: number
  info: (number | null)[]
  now_s: number
  unscheduled: string[]
  pending: number
  text?: string
  chart?: Chart
  spans?: Span[]
  grids?: Grid[]
}
export interface Episode {
  id: string
  env: string
  options: Record<string, unknown>
  seed: number
  policy: string
  columns: string[]
  nodes: NodeInfo[]
  steps: number
  steps_per_s: number
  error?: string
  done: string
  returns: number[]
  frame: Frame
}
export interface EpisodeUpdate extends Omit<Episode, 'nodes'> { nodes: NodeInfo[] | null; returns_from: number }
export interface EpisodeHead { id: string; env: string; policy: string; seed: number }
export interface Scores { kind: string; actions: (number | null)[]; value: number; entropy: number | null }
export interface Choice { policy: string; action?: number[]; scores?: Scores; error?: string }
export interface Pod { name: string; phase: string; cpu_m: number; memory_bytes: number; gpus: number; started_s: number; ended_s: number | null }
export interface Explanation { frame: Frame; taken: number[] | null; columns: string[]; rows: string[][]; choices: Choice[]; allowed: boolean[]; pods: Pod[] }

export interface Decision { pod: string; node: string; at: string; policy: string; default: string; policy_score: number | null; default_score: number | null; default_best: number | null }
export interface ClusterInfo extends Use {
  scheduler: string
  shadow: boolean
  policy: string
  baselines: string[]
  at: string
  nodes: NodeInfo[]
  pending: number
  waiting: { pod: string; scheduler: string; since: string; message: string }[]
  placed: number
  disagreed: number
  decisions: Decision[]
}
export interface NodePod { pod: string; phase: string; cpu_m: number; memory_bytes: number; gpus: number; from: string; to: string | null }
export interface PodWhy { pod: string; node: string; at: string; message: string; nodes: string[]; columns: string[]; rows: string[][]; choices: Choice[] }

async function answer<T>(r: Response): Promise<T> {
  const text = await r.text()
  if (r.status === 401) throw new Error('The page needs its token: open it once with ?token=TOKEN, the one in the file that --token-file names')
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    throw new Error(`${r.status}: ${text.slice(0, 200)}`)
  }
  if (!r.ok) throw new Error((body as { error: string }).error)
  return body as T
}

// useOrder returns what to call before a request. That returns what to call with the reply: whether it is newer than all
// replies so far, which may overtake one another.
export function useOrder() {
  const sent = useRef(0), taken = useRef(0)
  return () => {
    const n = ++sent.current
    return () => n > taken.current && (taken.current = n) > 0
  }
}

// ask sends a request. Browsers say "Failed to fetch" where nobody answers.
const ask = (path: string, init?: RequestInit) =>
  fetch(path, init).catch(() => { throw new Error('The program that serves this page does not answer. Start it again, then try again.') })

export const get = async <T>(path: string): Promise<T> => answer<T>(await ask(path))

export const post = async <T>(path: string, body: unknown): Promise<T> =>
  answer<T>(await ask(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }))

export const runPath = (id: string) => '/api/runs/' + id.split('/').map(encodeURIComponent).join('/')
