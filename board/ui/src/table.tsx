import { h, ComponentChildren } from 'preact'
import { useParam } from './state'

// Table sorts its rows by a column when the head is clicked: numbers by size, others as text. Cells that
// are empty stay last. The address keeps the order under the table's id: the column from 1, negative when descending.
export function Table(props: { id: string; caption: string; columns: string[]; rows: string[][]; mark?: (row: string[]) => string; cell?: (text: string, row: string[], column: number) => ComponentChildren }) {
  const [sort, setSort] = useParam('sort.' + props.id)
  const by = Math.abs(+sort || 0) - 1, down = +sort < 0
  const rows = by < 0 ? props.rows : [...props.rows].sort((a, b) => compare(a[by] ?? '', b[by] ?? '', down))
  return <div class="scroll" tabIndex={0} role="region" aria-label={props.caption}>
    <table>
      <caption>{props.caption}</caption>
      <thead><tr>{props.columns.map((c, i) =>
        <th scope="col" aria-sort={by === i ? (down ? 'descending' : 'ascending') : 'none'}>
          <button type="button" onClick={() => setSort(String(by === i && !down ? -i - 1 : i + 1))}>{c}{by === i ? (down ? ' ▾' : ' ▴') : ''}</button>
        </th>)}</tr></thead>
      <tbody>{rows.map(r => <tr class={props.mark?.(r)}>{r.map((t, i) =>
        <td class={isNumber(t) ? 'number' : t.length > 60 ? 'long' : ''}>{props.cell ? props.cell(t, r, i) : t}</td>)}</tr>)}</tbody>
    </table>
  </div>
}

const isNumber = (t: string) => t !== '' && !isNaN(+t)

function compare(a: string, b: string, down: boolean): number {
  if (a === '' || b === '') return (a === '' ? 1 : 0) - (b === '' ? 1 : 0)
  const order = isNumber(a) && isNumber(b) ? +a - +b : a.localeCompare(b)
  return down ? -order : order
}
