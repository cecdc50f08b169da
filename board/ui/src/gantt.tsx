import { h } from 'preact'
import { useEffect } from 'preact/hooks'
import { Span } from './api'
import { begin, useCanvas } from './canvas'
import { number } from './state'

const rowHeight = 26, left = 96, bottom = 22

// Gantt draws what ran side by side: a row for each task, a bar for each superstep. The rest of a superstep is
// the wait for the slowest.
export function Gantt({ spans }: { spans: Span[] }) {
  const { canvas, width, dark } = useCanvas()
  const rows = [...new Set(spans.map(s => s.row))]
  const from = Math.min(...spans.map(s => s.from_s)), to = Math.max(...spans.map(s => s.to_s))
  const height = rows.length * rowHeight + bottom
  useEffect(() => {
    const { g, colour } = begin(canvas.current!, width, height)
    const palette: Record<string, string> = { run: colour('--cpu'), slowest: colour('--gpu'), 're-plan': colour('--taken') }
    const x = (t: number) => left + (t - from) / Math.max(1e-9, to - from) * (width - left - 4)
    rows.forEach((r, i) => {
      const last = [...spans].reverse().find(s => s.row === r)
      g.fillStyle = colour('--text')
      g.fillText(`${r} ${last?.label ?? ''}`, 2, i * rowHeight + 17, left - 6)
      g.fillStyle = colour('--cell')
      g.fillRect(left, i * rowHeight + 2, width - left - 4, rowHeight - 4)
    })
    for (const s of spans) {
      g.fillStyle = palette[s.kind] ?? colour('--memory')
      g.fillRect(x(s.from_s), rows.indexOf(s.row) * rowHeight + 4, Math.max(1, x(s.to_s) - x(s.from_s) - 1), rowHeight - 8)
    }
    g.fillStyle = colour('--text')
    const ticks = width < 600 ? 2 : 4
    for (let k = 0; k <= ticks; k++) {
      const t = from + (to - from) * k / ticks
      g.textAlign = k === 0 ? 'left' : k === ticks ? 'right' : 'center'
      g.fillText(`${number(t)} s`, x(t), height - 6)
    }
    g.textAlign = 'left'
  }, [spans, width, dark])
  const steps = new Set(spans.filter(s => s.kind !== 're-plan').map(s => s.from_s)).size
  return <figure class="plot">
    <figcaption>The last {steps} supersteps <span class="legend"><span><i class="cpu" /> runs</span> <span><i class="gpu" /> slowest</span> <span><i class="replan" /> re-planning, after which a window begins</span></span></figcaption>
    <div><canvas class="gantt" ref={canvas} style={{ width: width + 'px', height: height + 'px' }} role="img" data-spans={spans.length}
      aria-label={`Bars of ${steps} supersteps for ${rows.join(', ')}; the slowest of the last is ${[...spans].reverse().find(s => s.kind === 'slowest')?.row}`} /></div>
  </figure>
}
