import { useEffect, useRef, useState } from 'preact/hooks'
import { useDark } from './state'

// useWidth returns the reference of an element, and its width in CSS pixels.
export function useWidth() {
  const box = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(800)
  useEffect(() => {
    const watch = new ResizeObserver(e => setWidth(e[0].contentRect.width))
    watch.observe(box.current!)
    return () => watch.disconnect()
  }, [])
  return { box, width }
}

// useCanvas returns the reference of a canvas as wide as its parent, that width in CSS pixels, and whether colours are dark.
export function useCanvas() {
  const canvas = useRef<HTMLCanvasElement>(null)
  const [width, setWidth] = useState(800)
  useEffect(() => {
    const watch = new ResizeObserver(e => setWidth(e[0].contentRect.width))
    watch.observe(canvas.current!.parentElement!)
    return () => watch.disconnect()
  }, [])
  return { canvas, width, dark: useDark() }
}

// begin sizes a canvas for the screen's pixels, clears it, and returns its context and the style's colours by name.
export function begin(c: HTMLCanvasElement, width: number, height: number) {
  const scale = devicePixelRatio || 1
  c.width = width * scale
  c.height = height * scale
  const g = c.getContext('2d')!
  g.scale(scale, scale)
  g.clearRect(0, 0, width, height)
  g.font = '11px system-ui, sans-serif'
  const style = getComputedStyle(document.documentElement)
  return { g, colour: (n: string) => style.getPropertyValue(n).trim() }
}
