import { h, render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Compare } from './compare'
import { Play } from './play'
import { Runs } from './runs'
import { Server } from './server'
import { readAddress } from './state'

const views: Record<string, { name: string; view: () => h.JSX.Element }> = {
  runs: { name: 'Training', view: Runs },
  compare: { name: 'Comparison', view: Compare },
  play: { name: 'Episode', view: Play },
  server: { name: 'Server', view: Server },
}

const keys: [string, string][] = [
  ['1, 2, 3, 4', 'show training, comparison, episode, server'],
  ['/', 'filter nodes or trainings'],
  ['space', 'play or pause the first episode'],
  ['.', 'step'],
  ['arrows', 'move among nodes, when the cluster has the focus'],
  ['?', 'this sheet'],
]

function App() {
  const [view, setView] = useState(readAddress().view)
  const [help, setHelp] = useState(false)
  useEffect(() => {
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
      else if (e.key === '/') { e.preventDefault(); document.querySelector<HTMLElement>('input[type=search]')?.focus() }
    }
    addEventListener('hashchange', moved)
    addEventListener('keydown', pressed)
    return () => { removeEventListener('hashchange', moved); removeEventListener('keydown', pressed) }
  }, [help])
  const { view: View } = views[view] ?? views.runs
  return <div>
    <header>
      <h1>Kubernasium</h1>
      <nav aria-label="views">{Object.entries(views).map(([id, v]) => <a href={'#' + id} aria-current={view === id ? 'page' : undefined}>{v.name}</a>)}</nav>
      <button type="button" aria-label="keys" onClick={() => setHelp(!help)}>?</button>
    </header>
    {help && <dialog open aria-label="keys"><dl>{keys.map(([k, what]) => [<dt><kbd>{k}</kbd></dt>, <dd>{what}</dd>])}</dl>
      <button type="button" onClick={() => setHelp(false)}>Close</button></dialog>}
    <main><View /></main>
  </div>
}

render(<App />, document.getElementById('app')!)
