// Results as a table for people.
import type { Case } from './benchmark.ts'
import type { Figures } from './quantiles.ts'

const COLUMNS = ['case', 'unit', '', 'p50', 'p99', 'min', 'max', 'n', 'ratio']
const QUANTILES = new Set(['p50', 'p99', 'min', 'max', 'n'])

/** Two lines per case, ours above the peer's, and below the table what each case has to say beyond its quantiles. */
export function table(cases: readonly Case[]): string {
  const rows = cases.flatMap(found => [
    row(found.case, found.unit, 'ours', found.ours, found.ratio),
    ...(found.peer ? [row('', '', 'peer', found.peer, null)] : []),
  ])
  const widths = COLUMNS.map((name, at) => Math.max(name.length, ...rows.map(cells => (cells[at] ?? '').length)))
  const line = (cells: readonly string[]) =>
    cells.map((cell, at) => (at < 3 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))).join('  ')
  return [line(COLUMNS), ...rows.map(line), ...cases.flatMap(notes)].map(text => text.trimEnd()).join('\n')
}

function row(name: string, unit: string, side: string, of: Figures, ratio: number | null): string[] {
  const numbers = [of.p50, of.p99, of.min, of.max].map(value => value.toFixed(value < 10 ? 2 : 1))
  return [name, unit, side, ...numbers, String(of.n), ratio === null ? '' : `${ratio.toFixed(1)}x`]
}

function notes(found: Case): string[] {
  const extra = (side: string, of: Figures | null) => {
    const said = Object.entries(of ?? {}).filter(([name]) => !QUANTILES.has(name))
    return said.length ? [`  ${found.case}, ${side}: ${said.map(([name, value]) => `${name} ${value}`).join(', ')}`] : []
  }
  return [...extra('ours', found.ours), ...extra('peer', found.peer)]
}
