import { h } from 'preact'
import { useEffect } from 'preact/hooks'
import { Frame, NodeInfo } from './api'
import { begin, useCanvas } from './canvas'

// Cell sizes in CSS pixels; nodes shrink until all fit into some 600 rows of pixels.
const sizes = [{ w: 116, h: 74, label: true }, { w: 64, h: 44, label: false }, { w: 34, h: 26, label: false }, { w: 20, h: 16, label: false }]

// Cluster draws each node as a cell with bars for CPU, memory and GPUs, on a canvas, since there may be
// thousands. Arrow keys move among nodes and Enter picks one; a click picks one, too.
export function Cluster(props: { nodes: NodeInfo[]; frame: Frame; shown: number[]; masked?: Set<number>; taken?: number; picked: number; pick: (i: number) => void }) {
  const { canvas, width } = useCanvas()
  const size = sizes.find(s => Math.ceil(props.shown.length / Math.max(1, Math.floor(width / s.w))) * s.h <= 640) ?? sizes[sizes.length - 1]
  const columns = Math.max(1, Math.floor(width / size.w))
  const height = Math.max(1, Math.ceil(props.shown.length / columns)) * size.h
  useEffect(() => {
    const c = canvas.current!
    const { g, colour } = begin(c, width, height)
    const palette = { text: colour('--text'), line: colour('--line'), cell: colour('--cell'), masked: colour('--masked'), cpu: colour('--cpu'), memory: colour('--memory'), gpu: colour('--gpu'), taken: colour('--taken') }
    props.shown.forEach((n, k) => drawNode(g, (k % columns) * size.w, Math.floor(k / columns) * size.h, size, props, n, palette))
    c.dataset.frames = String(+(c.dataset.frames ?? 0) + 1)
  })
  const at = (e: MouseEvent) => {
    const k = Math.floor(e.offsetY / size.h) * columns + Math.floor(e.offsetX / size.w)
    return Math.floor(e.offsetX / size.w) < columns ? props.shown[k] : undefined
  }
  const keys = (e: KeyboardEvent) => {
    const moves: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }
    const k = props.shown.indexOf(props.picked)
    if (!(e.key in moves)) return
    e.preventDefault()
    const next = props.shown[Math.min(props.shown.length - 1, Math.max(0, k + moves[e.key]))]
    if (next !== undefined) props.pick(next)
  }
  return <canvas id="cluster" ref={canvas} class="cluster" style={{ width: width + 'px', height: height + 'px' }} tabIndex={0} role="application"
    aria-label={`${props.shown.length} nodes; arrow keys choose one`}
    onClick={e => { const n = at(e); if (n !== undefined) props.pick(n) }} onKeyDown={keys} />
}

interface Palette { text: string; line: string; cell: string; masked: string; cpu: string; memory: string; gpu: string; taken: string }

function drawNode(g: CanvasRenderingContext2D, x: number, y: number, size: typeof sizes[0], p: Parameters<typeof Cluster>[0], n: number, palette: Palette) {
  const { frame } = p, pad = size.w > 30 ? 3 : 1
  const w = size.w - 2 * pad, height = size.h - 2 * pad
  x += pad
  y += pad
  g.fillStyle = p.masked?.has(n) ? palette.masked : palette.cell
  g.fillRect(x, y, w, height)
  let top = y
  if (size.label) {
    g.fillStyle = palette.text
    g.fillText(p.nodes[n].name.slice(-16), x + 3, y + 12, w - 6)
    g.fillText(`${frame.pods[n]} pods`, x + 3, y + 25, w - 6)
    top += 30
  }
  const devices = frame.gpus[n] ?? []
  const rows = devices.length > 0 ? 3 : 2, bar = (y + height - top) / rows
  const fill = (row: number, share: number, colour: string) => {
    g.fillStyle = colour
    g.fillRect(x, top + row * bar + 1, w * Math.min(1, share), Math.max(1, bar - 2))
  }
  fill(0, frame.cpu[n], palette.cpu)
  fill(1, frame.memory[n], palette.memory)
  devices.forEach((share, d) => {
    g.fillStyle = palette.gpu
    const part = w / devices.length
    g.fillRect(x + d * part, top + 2 * bar + 1, Math.max(0, (part - 1) * share), Math.max(1, bar - 2))
  })
  if (n !== p.taken && n !== p.picked) return
  g.lineWidth = 2
  g.strokeStyle = n === p.taken ? palette.taken : palette.text
  g.strokeRect(x, y, w, height)
}
