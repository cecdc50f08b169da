import { h, Fragment } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Grid } from './api'
import { begin, useCanvas } from './canvas'
import { number } from './state'
import { Table } from './table'

// fewRows is the most rows that are shown as a table.
const fewRows = 12

// Grids shows tables of amounts: few rows as a table, more as a map of colours.
export function Grids({ grids }: { grids: Grid[] }) {
  return <>{grids.map(g => g.rows.length <= fewRows
    ? <Table id={g.title} caption={g.title} columns={['name', ...g.columns]} rows={g.rows.map((r, i) => [r, ...g.values[i].map(number)])} />
    : <Heat grid={g} />)}</>
}

const cell = 16, left = 110, top = 18

// Heat draws a column of cells for each row of a grid, the fuller the colour the greater the amount. The row under the
// pointer, or the one that the arrow keys reach, stands below in words.
function Heat({ grid }: { grid: Grid }) {
  const { canvas, width, dark } = useCanvas()
  const [at, setAt] = useState(-1)
  const fit = Math.max(1, Math.floor((width - left) / cell)) // rows side by side
  const bands = Math.ceil(grid.rows.length / fit), bandHeight = grid.columns.length * cell + top
  const height = bands * bandHeight
  useEffect(() => {
    const { g, colour } = begin(canvas.current!, width, height)
    for (let band = 0; band < bands; band++) {
      g.fillStyle = colour('--text')
      grid.columns.forEach((name, j) => g.fillText(name, 2, band * bandHeight + top + j * cell + 12, left - 6))
      g.fillText(grid.rows[band * fit], left, band * bandHeight + 12)
    }
    grid.values.forEach((row, i) => row.forEach((v, j) => {
      const x = left + (i % fit) * cell, y = Math.floor(i / fit) * bandHeight + top + j * cell
      g.globalAlpha = 1
      g.fillStyle = colour('--cell')
      g.fillRect(x, y, cell - 1, cell - 1)
      if (v == null) return
      g.globalAlpha = Math.min(1, Math.max(0, v / grid.full[j]))
      g.fillStyle = colour(j < grid.columns.length - 2 ? '--cpu' : '--gpu')
      g.fillRect(x, y, cell - 1, cell - 1)
    }))
    g.globalAlpha = 1
    if (at >= 0) {
      g.strokeStyle = colour('--text')
      g.strokeRect(left + (at % fit) * cell - .5, Math.floor(at / fit) * bandHeight + top - .5, cell, grid.columns.length * cell)
    }
  }, [grid, width, at, dark])
  const under = (e: MouseEvent) => {
    const k = Math.floor(e.offsetY / bandHeight) * fit + Math.floor((e.offsetX - left) / cell)
    setAt(e.offsetX >= left && (e.offsetX - left) / cell < fit && k < grid.rows.length ? k : -1)
  }
  const keys = (e: KeyboardEvent) => {
    const move = ({ ArrowLeft: -1, ArrowRight: 1, ArrowUp: -fit, ArrowDown: fit } as Record<string, number>)[e.key]
    if (move === undefined) return
    e.preventDefault()
    setAt(Math.min(grid.rows.length - 1, Math.max(0, at + move)))
  }
  return <figure class="plot">
    <figcaption>{grid.title}</figcaption>
    <div><canvas class="heat" ref={canvas} style={{ width: width + 'px', height: height + 'px' }} tabIndex={0} role="application"
      aria-label={`${grid.rows.length} nodes by ${grid.columns.join(', ')}; arrow keys choose one`} onMouseMove={under} onKeyDown={keys} /></div>
    <p class="facts" aria-live="polite">{at >= 0 && <>node {grid.rows[at]}: {grid.columns.map((c, j) => <span>{c} {number(grid.values[at]?.[j])}</span>)}</>}</p>
  </figure>
}
