import { h, Fragment } from 'preact'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { NodeInfo, Use } from './api'
import { begin, useCanvas } from './canvas'
import { reveal, scale, scaleAt, shift, Turn, useZoom, View, whole, windowOf, zoomStep } from './zoom'

// Cell sizes in CSS pixels; nodes shrink until all fit into some 600 rows of pixels.
const sizes = [{ w: 116, h: 74, label: true }, { w: 64, h: 44, label: false }, { w: 34, h: 26, label: false }, { w: 20, h: 16, label: false }]
type Size = typeof sizes[0]

// A Place is where a node is drawn, or a rack's name.
interface Place { node: number; x: number; y: number }
interface Layout { size: Size; height: number; cells: Place[]; racks: { name: string; x: number; y: number; w: number; h: number }[] }

// matches reports whether a node has the text in its name, rack or GPU model.
export const matches = (n: NodeInfo, filter: string) => `${n.name} ${n.rack ?? ''} ${n.gpu_model ?? ''}`.includes(filter)

// hasRacks reports whether nodes stand in more than one rack.
export const hasRacks = (nodes: NodeInfo[]) => new Set(nodes.map(n => n.rack)).size > 1

const rackHead = 14, rackGap = 6

// place lays the nodes out in rows, or rack by rack.
function place(nodes: NodeInfo[], shown: number[], width: number, size: Size, grouped: boolean): Layout {
  const columns = Math.max(1, Math.floor(width / size.w))
  if (!grouped) {
    const cells = shown.map((node, k) => ({ node, x: (k % columns) * size.w, y: Math.floor(k / columns) * size.h }))
    return { size, height: Math.max(1, Math.ceil(shown.length / columns)) * size.h, cells, racks: [] }
  }
  const byRack = new Map<string, number[]>()
  for (const n of shown) byRack.set(nodes[n].rack ?? '', [...(byRack.get(nodes[n].rack ?? '') ?? []), n])
  const layout: Layout = { size, height: 0, cells: [], racks: [] }
  let x = 0, y = 0, tall = 0
  for (const [name, members] of byRack) {
    const across = Math.min(columns, members.length), w = across * size.w + rackGap, high = Math.ceil(members.length / across) * size.h + rackHead + rackGap
    if (x > 0 && x + w > width) {
      x = 0
      y += tall
      tall = 0
    }
    layout.racks.push({ name, x, y, w: w - rackGap, h: high - rackGap })
    members.forEach((node, k) => layout.cells.push({ node, x: x + (k % across) * size.w, y: y + rackHead + Math.floor(k / across) * size.h }))
    x += w
    tall = Math.max(tall, high)
    layout.height = y + tall
  }
  return layout
}

// Cluster draws each node as a cell with bars for CPU, memory and GPUs, on a canvas, since there may be
// thousands. Arrow keys move among nodes; a click picks one, too. Racks are framed. The wheel enlarges while the canvas has
// the focus or Ctrl is held, and scrolls the page otherwise; a drag moves what is enlarged, two fingers pinch.
export function Cluster(props: { view: View; turn: (t: Turn) => void; nodes: NodeInfo[]; use: Use; shown: number[]; grouped: boolean; masked?: Set<number>; taken?: number; picked: number; pick: (i: number) => void }) {
  const { canvas, width } = useCanvas()
  const layout = useMemo(() => {
    const all = sizes.map(s => place(props.nodes, props.shown, width, s, props.grouped))
    return all.find(l => l.height <= 640) ?? all[all.length - 1]
  }, [props.nodes, props.shown, width, props.grouped])
  const { size, height, cells } = layout
  const { view, turn } = props, seen = windowOf(view, width, height)
  const drawn = { w: size.w * view.z, h: size.h * view.z, label: size.w * view.z >= 76 && size.h * view.z >= 56 }
  useEffect(() => {
    const c = canvas.current!
    const { g, colour } = begin(c, width, seen.height)
    const palette = { text: colour('--text'), line: colour('--line'), cell: colour('--cell'), masked: colour('--masked'), cpu: colour('--cpu'), memory: colour('--memory'), gpu: colour('--gpu'), taken: colour('--taken') }
    const to = (at: { x: number; y: number }) => ({ x: at.x * view.z - seen.left, y: at.y * view.z - seen.top })
    for (const r of layout.racks) {
      const { x, y } = to(r), w = r.w * view.z, h = r.h * view.z
      g.strokeStyle = palette.line
      g.lineWidth = 1
      g.strokeRect(x + .5, y + .5, w - 1, h - 1)
      g.fillStyle = palette.text
      g.fillText(r.name, x + 3, y + rackHead * view.z - 3, w - 6)
    }
    let visible = 0
    for (const at of cells) {
      const { x, y } = to(at)
      if (x + drawn.w <= 0 || y + drawn.h <= 0 || x >= width || y >= seen.height) continue
      drawNode(g, x, y, drawn, props, at.node, palette)
      visible++
    }
    c.dataset.visible = String(visible)
    c.dataset.frames = String(+(c.dataset.frames ?? 0) + 1)
    c.dataset.racks = String(layout.racks.length)
  })
  const at = (e: MouseEvent) => {
    const x = (e.offsetX + seen.left) / view.z, y = (e.offsetY + seen.top) / view.z
    return cells.find(c => x >= c.x && x < c.x + size.w && y >= c.y && y < c.y + size.h)?.node
  }
  const wheel = (e: WheelEvent) => {
    if (!e.ctrlKey && document.activeElement !== canvas.current) return
    e.preventDefault()
    turn(v => scaleAt(v, Math.exp(-e.deltaY * (e.deltaMode ? .05 : .002)), width, height, e.offsetX, e.offsetY))
  }
  const fingers = useRef(new Map<number, PointerEvent>()), dragged = useRef(false)
  const began = useRef({ view: whole, apart: 1, x: 0, y: 0 }) // what two fingers have held since both touch
  const pair = () => {
    const [a, b] = [...fingers.current.values()]
    return { apart: Math.max(1, Math.hypot(a.offsetX - b.offsetX, a.offsetY - b.offsetY)), x: (a.offsetX + b.offsetX) / 2, y: (a.offsetY + b.offsetY) / 2 }
  }
  const hold = () => { if (fingers.current.size === 2) began.current = { view, ...pair() } }
  const down = (e: PointerEvent) => {
    if (fingers.current.size === 0) dragged.current = false
    fingers.current.set(e.pointerId, e)
    hold()
  }
  const drag = (e: PointerEvent) => {
    const before = fingers.current.get(e.pointerId), two = fingers.current.size === 2
    if (!before || !two && view.z === 1) return
    if (!dragged.current && Math.hypot(e.offsetX - before.offsetX, e.offsetY - before.offsetY) < 5) return // a click
    dragged.current = true
    canvas.current!.setPointerCapture(e.pointerId)
    fingers.current.set(e.pointerId, e)
    if (!two) return turn(v => shift(v, width, height, before.offsetX - e.offsetX, before.offsetY - e.offsetY))
    const from = began.current, to = pair()
    turn(() => shift(scaleAt(from.view, to.apart / from.apart, width, height, from.x, from.y), width, height, from.x - to.x, from.y - to.y))
  }
  const up = (e: PointerEvent) => { fingers.current.delete(e.pointerId); hold() }
  const choose = (c: Place) => {
    props.pick(c.node)
    turn(v => reveal(v, width, height, { ...c, ...size }))
  }
  const keys = (e: KeyboardEvent) => {
    const move = ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] } as Record<string, number[]>)[e.key]
    if (!move) return
    e.preventDefault()
    const from = cells.find(c => c.node === props.picked)
    if (!from) {
      if (cells.length) choose(cells[0])
      return
    }
    const k = cells.indexOf(from)
    // Left and right follow the order; up and down reach the nearest node in the next row.
    const next = move[0] ? cells[k + move[0]] : cells.filter(c => (c.y - from.y) * move[1] > 0)
      .sort((a, b) => Math.abs(a.y - from.y) - Math.abs(b.y - from.y) || Math.abs(a.x - from.x) - Math.abs(b.x - from.x))[0]
    if (next) choose(next)
  }
  return <canvas id="cluster" ref={canvas} class="cluster" style={{ width: width + 'px', height: seen.height + 'px', touchAction: view.z > 1 ? 'none' : 'pan-x pan-y' }} tabIndex={0} role="application"
    aria-label={`${props.shown.length} nodes${layout.racks.length ? ` in ${layout.racks.length} racks` : ''}; arrow keys choose one; plus and minus enlarge and shrink`}
    onClick={e => { const n = at(e); if (n !== undefined && !dragged.current) props.pick(n) }} onKeyDown={keys}
    onWheel={wheel} onPointerDown={down} onPointerMove={drag} onPointerUp={up} onPointerCancel={up} />
}

interface Palette { text: string; line: string; cell: string; masked: string; cpu: string; memory: string; gpu: string; taken: string }

function drawNode(g: CanvasRenderingContext2D, x: number, y: number, size: Size, p: Parameters<typeof Cluster>[0], n: number, palette: Palette) {
  const { use } = p, pad = size.w > 30 ? 3 : 1
  const w = size.w - 2 * pad, height = size.h - 2 * pad
  x += pad
  y += pad
  g.fillStyle = p.masked?.has(n) ? palette.masked : palette.cell
  g.fillRect(x, y, w, height)
  let top = y
  if (size.label) {
    g.fillStyle = palette.text
    g.fillText(p.nodes[n].name.slice(-16), x + 3, y + 12, w - 6)
    g.fillText(`${use.pods[n]} pods`, x + 3, y + 25, w - 6)
    top += 30
  }
  const devices = use.gpus[n] ?? []
  const rows = devices.length > 0 ? 3 : 2, bar = (y + height - top) / rows
  const fill = (row: number, share: number, colour: string) => {
    g.fillStyle = colour
    g.fillRect(x, top + row * bar + 1, w * Math.min(1, share), Math.max(1, bar - 2))
  }
  fill(0, use.cpu[n], palette.cpu)
  fill(1, use.memory[n], palette.memory)
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

// Nodes is the cluster with its filter and legend.
export function Nodes(props: Omit<Parameters<typeof Cluster>[0], 'shown' | 'grouped' | 'view' | 'turn'> & { filter: string; setFilter: (f: string) => void; flat: string; setFlat: (f: string) => void }) {
  const racks = hasRacks(props.nodes)
  const [view, turn] = useZoom()
  const shown = useMemo(() => props.nodes.map((_, i) => i).filter(i => matches(props.nodes[i], props.filter)), [props.nodes, props.filter])
  return <>
    <div class="bar"><label>Nodes <input class="filter" type="search" placeholder="filter; press /" title="a part of a name, a rack or a GPU model" value={props.filter} onInput={e => props.setFilter(e.currentTarget.value)} /></label>
      {racks && <label><input type="checkbox" name="racks" checked={!props.flat} onChange={() => props.setFlat(props.flat ? '' : '1')} /> by rack</label>}
      <span class="zoom"><button type="button" class="zoom-out" aria-label="shrink" disabled={view.z === 1} onClick={() => turn(v => scale(v, 1 / zoomStep))}>−</button>
        <output>{Math.round(100 * view.z)} %</output>
        <button type="button" class="zoom-in" aria-label="enlarge" onClick={() => turn(v => scale(v, zoomStep))}>+</button>
        <button type="button" class="zoom-reset" disabled={view.z === 1} onClick={() => turn(() => whole)}>Reset</button></span>
      <span class="legend"><span><i class="cpu" /> CPU</span> <span><i class="memory" /> memory</span> {props.nodes.some(n => n.gpus > 0) && <><span><i class="gpu" /> GPUs</span> </>}<span><i class="masked" /> masked out</span> <span><i class="taken" /> taken</span></span></div>
    {shown.length === 0 && <p class="empty">No node has “{props.filter}” in its name, rack or GPU model.</p>}
    <div class="nodes"><Cluster {...props} shown={shown} grouped={racks && !props.flat} view={view} turn={turn} /></div>
  </>
}
