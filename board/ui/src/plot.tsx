import uPlot from 'uplot'
import { h } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { colours, useDark } from './state'

export interface Line { label: string; y: (number | null)[]; dash?: boolean; colour?: string; low?: (number | null)[]; high?: (number | null)[] }

const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

// Events, such as kills, are ticks at the upper edge, in colours that no line beside them has.
const eventColours = ['#7f7f7f', '#8a7a00', '#b3005e']
export const eventColour = (i: number) => eventColours[i % eventColours.length]

// turned is the part [min, max] of [first, last] that a key leads to: half or twice as wide, or a quarter of its width aside;
// null if the key leads nowhere.
function turned(key: string, min: number, max: number, first: number, last: number): [number, number] | null {
  const mid = (min + max) / 2, w = max - min
  const halves = ({ '+': w / 4, '=': w / 4, '-': w, '0': last - first } as Record<string, number>)[key] ?? w / 2
  const aside = ({ ArrowLeft: -w / 4, ArrowRight: w / 4 } as Record<string, number>)[key] ?? 0
  if (halves === w / 2 && !aside) return null
  if (2 * halves >= last - first) return [first, last]
  const from = Math.min(Math.max(first, mid + aside - halves), last - 2 * halves)
  return [from, from + 2 * halves]
}

// Plot draws lines over x. A click on a point calls pick with its x. What is enlarged by dragging or keys stays so when points
// come; setRange is called with it, as least,greatest x, and range is what to begin with.
export function Plot(props: { title: string; x: number[]; xLabel: string; lines: Line[]; height?: number; pick?: (x: number) => void; mark?: number; range?: string; setRange?: (r: string) => void; events?: { name: string; x: number[] }[] }) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const zoomed = useRef((props.range ?? '').split(',').map(Number))
  const dark = useDark()
  useEffect(() => {
    const el = box.current!
    const series: uPlot.Series[] = [{ label: props.xLabel }]
    const data: (number | null)[][] = [props.x]
    const bands: uPlot.Band[] = []
    props.lines.forEach((l, i) => {
      const stroke = l.colour ?? colours[i % colours.length]
      series.push({ label: l.label, stroke, width: 2, dash: l.dash ? [6, 4] : undefined, spanGaps: true, points: { show: props.x.length < 40 } })
      data.push(l.y)
      if (l.low && l.high) {
        const at = series.length
        series.push({ label: l.label + ' high', stroke: 'transparent', class: 'edge', points: { show: false } }, { label: l.label + ' low', stroke: 'transparent', class: 'edge', points: { show: false } })
        data.push(l.high, l.low)
        bands.push({ series: [at, at + 1], fill: stroke + '33' })
      }
    })
    const axis = { stroke: css('--text'), grid: { stroke: css('--line'), width: 1 }, ticks: { stroke: css('--line') } }
    const opts: uPlot.Options = {
      width: el.clientWidth || 600, height: props.height ?? 300, series, bands,
      scales: { x: { time: false } },
      axes: [{ ...axis, label: props.xLabel }, { ...axis, size: 64 }],
      cursor: { drag: { x: true, y: false } },
      hooks: {
        setScale: [(u, key) => {
          const { min, max } = u.scales.x, x = u.data[0]
          if (key !== 'x' || min == null || max == null) return
          zoomed.current = min > x[0] || max < x[x.length - 1] ? [min, max] : []
          el.dataset.range = zoomed.current.map(v => +v.toPrecision(6)).join(',')
          props.setRange?.(el.dataset.range)
        }],
        ready: [u => props.pick && u.over.addEventListener('click', () => {
          if (u.cursor.idx != null) props.pick!(u.data[0][u.cursor.idx])
        })],
        draw: [u => {
          u.ctx.save()
          props.events?.forEach((e, i) => {
            u.ctx.fillStyle = eventColour(i)
            for (const x of e.x) u.ctx.fillRect(Math.round(u.valToPos(x, 'x', true)) - 1, u.bbox.top + i * 9, 3, 8)
          })
          u.ctx.restore()
          if (props.mark == null) return
          const at = Math.round(u.valToPos(props.mark, 'x', true))
          u.ctx.save()
          u.ctx.strokeStyle = css('--text')
          u.ctx.beginPath()
          u.ctx.moveTo(at, u.bbox.top)
          u.ctx.lineTo(at, u.bbox.top + u.bbox.height)
          u.ctx.stroke()
          u.ctx.restore()
        }],
      },
    }
    plot.current = new uPlot(opts, data as uPlot.AlignedData, el)
    const [min, max] = zoomed.current
    if (min < max) plot.current.setScale('x', { min, max })
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: el.clientWidth, height: opts.height }))
    watch.observe(el)
    return () => { watch.disconnect(); plot.current?.destroy() }
  }, [props.title, props.x, props.lines, props.mark, props.events, dark])
  const save = () => {
    const a = document.createElement('a')
    a.href = box.current!.querySelector('canvas')!.toDataURL('image/png')
    a.download = props.title.replace(/\W+/g, '_') + '.png'
    a.click()
  }
  const keys = (e: KeyboardEvent) => {
    const u = plot.current, first = props.x[0], last = props.x[props.x.length - 1], { min, max } = u?.scales.x ?? {}
    if (!u || min == null || max == null || !(first < last) || e.ctrlKey || e.metaKey || e.altKey) return
    const to = turned(e.key, min, max, first, last)
    if (!to) return
    e.preventDefault()
    e.stopPropagation() // the page has such keys for the cluster
    if (to[1] - to[0] >= (last - first) / props.x.length) u.setScale('x', { min: to[0], max: to[1] })
  }
  return <figure class="plot">
    <figcaption>{props.title} <button type="button" onClick={save}>PNG</button>
      <button type="button" onClick={() => saveCSV(props.title, props.x, props.xLabel, props.lines)}>CSV</button></figcaption>
    <div ref={box} role="img" tabIndex={0} onKeyDown={keys} aria-keyshortcuts="+ - 0 ArrowLeft ArrowRight" aria-label={`${props.title}: ${props.lines.map(l => l.label).join(', ')}`} />
  </figure>
}

function saveCSV(title: string, x: number[], xLabel: string, lines: Line[]) {
  const cell = (s: string) => /[",\n]/.test(s) ? `"${s.replace(/"/g, '""')}"` : s
  const rows = [[xLabel, ...lines.map(l => l.label)].map(cell).join(',')]
  x.forEach((v, i) => rows.push([v, ...lines.map(l => l.y[i] ?? '')].join(',')))
  const a = document.createElement('a')
  a.href = URL.createObjectURL(new Blob([rows.join('\n') + '\n'], { type: 'text/csv' }))
  a.download = title.replace(/\W+/g, '_') + '.csv'
  a.click()
  URL.revokeObjectURL(a.href)
}
