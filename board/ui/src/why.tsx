import { h, Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { Choice, NodeInfo, Pod } from './api'
import { number } from './state'
import { Table } from './table'

// Why shows for the decision at a step what is known of each node, and what each policy that is asked would
// do, with its scores. Another policy can play on from here.
export function Why(props: {
  id: string // of its tables in the address
  why: { frame?: { step: number }; taken: number[] | null; columns: string[]; rows: string[][]; choices: Choice[]; pods?: Pod[] }
  nodes: NodeInfo[]; picked: number; pick: (i: number) => void
  policies: string[]; asked: string[]; ask: (p: string[]) => void; fork?: (policy: string) => void
}) {
  const { why } = props
  const [other, setOther] = useState(props.policies[0] ?? 'random')
  const nameOf = (a?: number[]) => !a ? '' : a.length === 1 && why.rows.length > 0 ? why.rows[a[0]]?.[0] ?? `action ${a[0]}` : a.map(number).join(' ')
  const short = (p: string) => p.split('/').slice(-2).join('/').replace(/\.safetensors$/, '')
  const scored = why.choices.filter(c => c.scores && !why.columns.includes(c.policy)) // a column of its own has the same
  // The reason, which the server sends last, and the policies' scores stand beside the name, where narrow screens show them, too.
  const order = <T,>(r: T[], scores: T[]) => [r[0], r[r.length - 1], ...scores, ...r.slice(1, -1)]
  const columns = order(why.columns, scored.map(c => short(c.policy)))
  const rows = why.rows.map((r, i) => order(r, scored.map(c => c.scores!.actions[i] == null ? '' : number(c.scores!.actions[i]))))
  const shown = rows[props.picked]
  const kinds = [...new Set(scored.map(c => c.scores!.kind))].join(' or ')
  const nodesCaption = 'Nodes' + (kinds && `; ${scored.map(c => short(c.policy)).join(', ')}: ${kinds} of each node`)
  return <div class="why">
    <h3>Why</h3>
    <p>Taken here: <strong class="taken-name">{why.taken ? nameOf(why.taken) : 'nothing yet'}</strong>.
      {shown && <> Picked: <strong>{shown[0]}</strong>{shown[1] ? <> – masked out: <em class="reason">{shown[1]}</em></> : ' – permitted'}.</>}</p>
    <fieldset><legend>Ask</legend>
      {props.policies.map(p => <label key={p}><input type="checkbox" name="ask" value={p} checked={props.asked.includes(p)}
        onChange={() => props.ask(props.asked.includes(p) ? props.asked.filter(a => a !== p) : [...props.asked, p])} /> {short(p)}</label>)}
    </fieldset>
    {why.choices.length > 0 && <Table id={props.id + '.choices'} caption="What each policy would do" columns={['policy', 'chooses', 'value', 'entropy', 'scores are']}
      rows={why.choices.map(c => [short(c.policy), c.error ?? nameOf(c.action), number(c.scores?.value), number(c.scores?.entropy), c.scores?.kind ?? ''])} />}
    {props.fork && <div class="bar"><label>From step {why.frame?.step} on <select class="fork-policy" value={other} onChange={e => setOther(e.currentTarget.value)}>{[...props.policies, 'random'].map(p => <option>{p}</option>)}</select></label>
      <button type="button" class="fork" onClick={() => props.fork?.(other)}>Fork</button></div>}
    {props.picked >= 0 && why.pods && <Table id={props.id + '.pods'} caption={`Pods of ${props.nodes[props.picked]?.name}, now and before`} columns={['pod', 'phase', 'CPU, m', 'memory, Mi', 'GPUs', 'from, s', 'to, s']}
      rows={why.pods.map(p => [p.name, p.phase, String(p.cpu_m), number(p.memory_bytes / 2 ** 20), number(p.gpus), number(p.started_s), p.ended_s == null ? '' : number(p.ended_s)])} />}
    {rows.length > 0 && <Table id={props.id + '.nodes'} caption={nodesCaption} columns={columns} rows={rows} mark={r => {
      const i = props.nodes.findIndex(n => n.name === r[0])
      return [i === props.picked ? 'picked' : '', why.taken?.[0] === i ? 'taken' : '', r[1] ? 'masked' : ''].join(' ').trim()
    }} cell={(t, r, i) => i === 0 ? <button type="button" class="link" onClick={() => props.pick(props.nodes.findIndex(n => n.name === t))}>{t}</button> : t} />}
  </div>
}
