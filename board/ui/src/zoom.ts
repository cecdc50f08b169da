import { useEffect, useRef, useState } from 'preact/hooks'
import { readAddress, useParam } from './state'

// A View is the part of a drawing that is seen: z times as large, around the point x, y in shares of the drawing.
export interface View { z: number; x: number; y: number }

export const whole: View = { z: 1, x: .5, y: .5 }
export const zoomStep = 1.5
const most = 16, tall = 640 // CSS pixels that a small drawing may grow to
const within = (v: number, low: number, high: number) => Math.min(high, Math.max(low, v))

// A Turn makes a view of the one before. Several events may come before the page is drawn again, each of which follows the last.
export type Turn = (v: View) => View

// useZoom keeps a view in the address, which is written when a movement pauses: browsers limit how often it may change.
export function useZoom(): [View, (turn: Turn) => void] {
  const [param, setParam] = useParam('zoom')
  const [view, setView] = useState(parse(param))
  const now = useRef(view), written = useRef(param), timer = useRef(0)
  const show = (v: View) => { now.current = v; setView(v) }
  useEffect(() => {
    const changed = () => {
      const text = readAddress().params.get('zoom') ?? ''
      if (text === written.current) return // what this view wrote is older than what it shows
      written.current = text
      show(parse(text))
    }
    addEventListener('hashchange', changed)
    return () => removeEventListener('hashchange', changed)
  }, [])
  useEffect(() => () => clearTimeout(timer.current), [])
  return [view, turn => {
    const v = turn(now.current)
    show(v)
    clearTimeout(timer.current)
    timer.current = setTimeout(() => {
      written.current = v.z === 1 ? '' : [v.z, v.x, v.y].map(n => +n.toFixed(4)).join(',')
      setParam(written.current)
    }, 150)
  }]
}

function parse(text: string): View {
  const [z, x, y] = text.split(',').map(Number)
  return z > 1 && x >= 0 && y >= 0 ? { z: Math.min(z, most), x: Math.min(x, 1), y: Math.min(y, 1) } : whole
}

// scale enlarges a view around its middle.
export const scale = (v: View, factor: number): View => {
  const z = within(v.z * factor, 1, most)
  return z === 1 ? whole : { ...v, z }
}

// A Window is where a view of a drawing begins, in pixels of the enlarged drawing, and how high it is.
export interface Window { z: number; left: number; top: number; height: number }

export function windowOf(v: View, width: number, height: number): Window {
  const seen = Math.min(height * v.z, Math.max(height, tall))
  return {
    z: v.z, height: seen,
    left: within(v.x * width * v.z - width / 2, 0, width * (v.z - 1)), top: within(v.y * height * v.z - seen / 2, 0, height * v.z - seen),
  }
}

// begin returns the view of a drawing whose window begins there, or as near as the drawing's edges allow.
function begin(z: number, left: number, top: number, width: number, height: number): View {
  const seen = Math.min(height * z, Math.max(height, tall))
  return {
    z, x: (within(left, 0, width * (z - 1)) + width / 2) / (width * z), y: (within(top, 0, height * z - seen) + seen / 2) / (height * z),
  }
}

// scaleAt enlarges a view so that what is at a pixel of the window stays there.
export function scaleAt(v: View, factor: number, width: number, height: number, px: number, py: number): View {
  const w = windowOf(v, width, height), { z } = scale(v, factor)
  return z === 1 ? whole : begin(z, (w.left + px) / w.z * z - px, (w.top + py) / w.z * z - py, width, height)
}

// shift moves a view by pixels.
export function shift(v: View, width: number, height: number, dx: number, dy: number): View {
  const w = windowOf(v, width, height)
  return v.z === 1 ? v : begin(v.z, w.left + dx, w.top + dy, width, height)
}

// reveal moves a view as little as needed to see a box of the drawing.
export function reveal(v: View, width: number, height: number, box: { x: number; y: number; w: number; h: number }): View {
  const w = windowOf(v, width, height)
  const by = (from: number, size: number, begins: number, seen: number) => from < begins ? from - begins : Math.max(0, Math.min(from + size - begins - seen, from - begins))
  const dx = by(box.x * v.z, box.w * v.z, w.left, width), dy = by(box.y * v.z, box.h * v.z, w.top, w.height)
  return dx || dy ? shift(v, width, height, dx, dy) : v
}
