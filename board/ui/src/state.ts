import { useEffect, useLayoutEffect, useState } from 'preact/hooks'

// The address keeps the state, so that a view can be sent: #view?key=value&key=value.

// Browsers limit how often the address may change: within pause ms it is written once more, at the end.
const pause = 150
let current = location.hash, written = current
let timer = 0, last = 0

addEventListener('hashchange', () => { // the first listener: others read what it finds
  if (location.hash === written) return // ours, from writeAddress
  clearTimeout(timer)
  current = written = location.hash
})

function flush() {
  history.replaceState(null, '', current)
  written = location.hash
  last = performance.now()
}

export function readAddress(): { view: string; params: URLSearchParams } {
  const [view, query] = current.slice(1).split('?')
  return { view: view ?? '', params: new URLSearchParams(query ?? '') }
}

export function writeAddress(view: string, params: URLSearchParams) {
  const query = params.toString()
  const hash = '#' + view + (query ? '?' + query : '')
  if (hash === current) return
  current = hash
  clearTimeout(timer)
  if (performance.now() - last > pause) flush()
  else timer = setTimeout(flush, pause)
  dispatchEvent(new Event('hashchange'))
}

// useParam is a part of the address, "" if it is not there.
export function useParam(name: string): [string, (value: string) => void] {
  const [value, set] = useState(readAddress().params.get(name) ?? '')
  useLayoutEffect(() => { // as in main.tsx
    const changed = () => set(readAddress().params.get(name) ?? '')
    addEventListener('hashchange', changed)
    return () => removeEventListener('hashchange', changed)
  }, [name])
  return [value, (v: string) => {
    const { view, params } = readAddress()
    if (v) params.set(name, v)
    else params.delete(name)
    writeAddress(view, params)
  }]
}

export const number = (v: number | null | undefined) =>
  v == null ? '–' : Math.abs(v) >= 1e5 ? v.toExponential(2) : String(+v.toPrecision(5))

// time writes a time as the visitor's system does, with its zone.
export const time = (t: string | number) => new Date(t).toLocaleString([], { dateStyle: 'short', timeStyle: 'long' })

// duration writes seconds as people do: 75 s, 12 min, 3.4 h.
export const duration = (s: number) => !isFinite(s) ? '–' : s < 100 ? `${number(+s.toPrecision(2))} s` : s < 5400 ? `${Math.round(s / 60)} min` : `${number(+(s / 3600).toPrecision(2))} h`

// bytes and cores write amounts as Kubernetes does: 16Gi, 500m.
export const bytes = (b: number) => b >= 2 ** 30 ? `${number(+(b / 2 ** 30).toPrecision(3))}Gi` : `${number(+(b / 2 ** 20).toPrecision(3))}Mi`
export const cores = (m: number) => m % 1000 === 0 ? String(m / 1000) : `${m}m`

const darkScheme = matchMedia('(prefers-color-scheme: dark)')

// useDark reports whether the system asks for dark colours. What is drawn on a canvas is drawn again when that changes.
export function useDark(): boolean {
  const [dark, set] = useState(darkScheme.matches)
  useEffect(() => {
    const changed = () => set(darkScheme.matches)
    darkScheme.addEventListener('change', changed)
    return () => darkScheme.removeEventListener('change', changed)
  }, [])
  return dark
}

// Colours of Okabe and Ito, which colour-blind people can distinguish.
export const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#8a7a00', '#7f7f7f']
