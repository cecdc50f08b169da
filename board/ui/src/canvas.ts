import { useEffect, useRef, useState } from 'preact/hooks'

// useCanvas returns the reference of a canvas as wide as its parent, and that width in CSS pixels.
export function useCanvas() {
  const canvas = useRef<HTMLCanvasElement>(null)
  const [width, setWidth] = useState(800)
  useEffect(() => {
    const watch = new ResizeObserver(e => setWidth(e[0].contentRect.width))
    watch.observe(canvas.current!.parentElement!)
    return () => watch.disconnect()
  }, [])
  return { canvas, width }
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
