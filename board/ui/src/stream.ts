import { useEffect, useState } from 'preact/hooks'

// One stream of server-sent events carries all topics that the page shows: docs/board.md has their schema.

type Listener = (data: any) => void // eslint: each topic has its own type
const listeners = new Map<string, Set<Listener>>()
let events: EventSource | null = null
let timer = 0
let lost = () => {}

// onLost is called when the stream is cut, and when it is there again.
export const onLost = (f: () => void) => { lost = f }
export const isLost = () => events !== null && events.readyState !== EventSource.OPEN && broken
let broken = false

// follow calls listener with each state of a topic, the first of which is whole. It returns how to end that.
export function follow(topic: string, listener: Listener): () => void {
  const all = listeners.get(topic) ?? new Set()
  listeners.set(topic, all.add(listener))
  reopen()
  return () => {
    all.delete(listener)
    if (all.size > 0) return
    listeners.delete(topic)
    reopen()
  }
}

// reopen asks for the topics of the moment, once those that change together have changed.
function reopen() {
  clearTimeout(timer)
  timer = setTimeout(open, 0)
}

function open() {
  events?.close()
  events = null
  if (listeners.size === 0 || document.hidden) return
  const query = new URLSearchParams([...listeners.keys()].sort().map(t => ['topic', t]))
  events = new EventSource(`/api/stream?${query}`)
  events.onmessage = e => {
    const m = JSON.parse(e.data)
    listeners.get(m.topic)?.forEach(l => l(m.data))
  }
  events.onopen = () => { broken = false; lost() }
  events.onerror = () => { broken = true; lost() }
}

document.addEventListener('visibilitychange', reopen) // a page that nobody sees costs nothing

// useTopic returns the newest state of a topic, or why there is none. Without a name it follows nothing.
export function useTopic<T>(topic: string): [T | null, string] {
  const [data, setData] = useState<T | null>(null)
  const [error, setError] = useState('')
  useEffect(() => {
    if (!topic) return
    setData(null)
    return follow(topic, (d: T & { error?: string }) => {
      if (d.error) setError(d.error)
      else { setData(d); setError('') }
    })
  }, [topic])
  return [data, error]
}
