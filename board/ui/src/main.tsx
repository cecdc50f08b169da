import { h, render } from 'preact'
import { useEffect, useLayoutEffect, useState } from 'preact/hooks'
import { get, PageInfo } from './api'
import { Compare } from './compare'
import { Live } from './live'
import { Play } from './play'
import { Runs } from './runs'
import { Server } from './server'
import { Shadow } from './shadow'
import { readAddress } from './state'
import { isLost, onLost } from './stream'

const views: Record<string, { name: string; view: (p: { page: PageInfo }) => h.JSX.Element }> = {
  runs: { name: 'Training', view: Runs },
  compare: { name: 'Comparison', view: Compare },
  play: { name: 'Episode', view: Play },
  live: { name: 'Scheduler', view: Live },
  shadow: { name: 'Shadow', view: Shadow },
  server: { name: 'Server', view: Server },
}

const keys: [string, string][] = [
  ['1 to 6', 'show training, comparison, episode, scheduler, shadow, server'],
  ['/', 'filter nodes or trainings'],
  ['space', 'play or pause the first episode'],
  ['.', 'step'],
  ['arrows', 'move among nodes, when the cluster has the focus; left and right move the enlarged part of a plot that has it'],
  ['+ and -', 'enlarge and shrink the cluster, or the plot that has the focus; so do Ctrl and the wheel, or the wheel alone when the cluster has the focus, and two fingers'],
  ['0', 'the whole cluster, or plot'],
  ['drag', 'move the enlarged cluster; enlarge a part of a plot'],
  ['?', 'this sheet'],
]

// first is the view of a page without another in its address: what the page was started for.
const first = (p: PageInfo) => p.cluster ? 'live' : p.server ? 'server' : 'runs'

function App() {
  const [page, setPage] = useState<PageInfo | null>(null)
  const [error, setError] = useState('')
  const [view, setView] = useState(readAddress().view)
  const [help, setHelp] = useState(false)
  const [lost, setLost] = useState(false)
  useEffect(() => {
    get<PageInfo>('/api/page').then(setPage, e => setError(e.message))
    onLost(() => setLost(isLost()))
  }, [])
  useLayoutEffect(() => { // before the browser can report a change of the address: a link may be clicked at once
    const moved = () => setView(readAddress().view)
    const pressed = (e: KeyboardEvent) => {
      const to = e.target as HTMLElement
      if (e.key === 'Escape') setHelp(false)
      if (/^(INPUT|SELECT|TEXTAREA|BUTTON)$/.test(to.tagName) || e.ctrlKey || e.metaKey || e.altKey) return
      const named = Object.keys(views)[+e.key - 1]
      const press = (selector: string) => { e.preventDefault(); document.querySelector<HTMLElement>(selector)?.click() }
      if (named) location.hash = '#' + named
      else if (e.key === '?') setHelp(!help)
      else if (e.key === ' ') press('.play')
      else if (e.key === '.') press('.step')
      else if (e.key === '+' || e.key === '=') press('.zoom-in')
      else if (e.key === '-') press('.zoom-out')
      else if (e.key === '0') press('.zoom-reset')
      else if (e.key === '/') { e.preventDefault(); document.querySelector<HTMLElement>('input[type=search]')?.focus() }
    }
    addEventListener('hashchange', moved)
    addEventListener('keydown', pressed)
    return () => { removeEventListener('hashchange', moved); removeEventListener('keydown', pressed) }
  }, [help])
  const shown = views[view] ? view : page ? first(page) : 'runs'
  const { view: View } = views[shown]
  return <div>
    <header>
      <h1>Kubernasium</h1>
      <nav aria-label="views">{Object.entries(views).map(([id, v]) => <a href={'#' + id} aria-current={shown === id ? 'page' : undefined}>{v.name}</a>)}</nav>
      <button type="button" aria-label="keys" onClick={() => setHelp(!help)}>?</button>
    </header>
    {help && <dialog open aria-label="keys"><dl>{keys.map(([k, what]) => [<dt><kbd>{k}</kbd></dt>, <dd>{what}</dd>])}</dl>
      <button type="button" onClick={() => setHelp(false)}>Close</button></dialog>}
    {lost && <p class="error lost" role="alert">The program that serves this page does not answer. The page shows what it had, and tries again.</p>}
    <main>{error ? <p class="error" role="alert">{error}</p> : page ? <View page={page} /> : <p class="empty">Loading…</p>}</main>
  </div>
}

render(<App />, document.getElementById('app')!)
