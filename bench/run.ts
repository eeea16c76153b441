// npm run bench -- <name> [--json] [--full] [--no-peer]
// One benchmark, with its peer in the same run. No name lists them.
import { setMaxListeners } from 'node:events'
import { cpus, loadavg, release } from 'node:os'
import { parseArgs } from 'node:util'
import { egress } from './egress.ts'
import { exec } from './exec.ts'
import { files } from './files.ts'
import { memory } from './memory.ts'
import { microvm } from './microvm.ts'
import { pull } from './pull.ts'
import { start } from './start.ts'
import type { Benchmark, Case } from './support/benchmark.ts'
import { table } from './support/table.ts'
import { task } from './task.ts'
import { throughput } from './throughput.ts'

const BENCHMARKS: Readonly<Record<string, Benchmark>> = { start, exec, throughput, files, memory, pull, microvm, egress, task }

process.exitCode = await main(process.argv.slice(2))

async function main(argv: string[]): Promise<number> {
  const { values, positionals } = parse(argv)
  const [name, ...others] = positionals
  if (!name) {
    process.stdout.write(list())
    return 0
  }
  const benchmark = BENCHMARKS[name]
  if (!benchmark || others.length > 0) {
    process.stderr.write(`no benchmark ${positionals.join(' ')}\n${list()}`)
    return 2
  }
  const stop = new AbortController()
  // Every call in flight listens for it.
  setMaxListeners(0, stop.signal)
  const interrupt = () => stop.abort(new Error('interrupted'))
  process.once('SIGINT', interrupt)
  process.once('SIGTERM', interrupt)
  const say = (line: string) => process.stderr.write(`${line}\n`)
  try {
    const before = loadavg()
    const cases = await benchmark.run({ full: values.full, withPeer: !values['no-peer'], signal: stop.signal, say })
    process.stdout.write(
      values.json
        ? `${JSON.stringify(report(name, benchmark, cases, before), null, 2)}\n`
        : print(name, benchmark, cases, before),
    )
    return 0
  } catch (error) {
    for (let at = error; at instanceof Error; at = at.cause) say(`bench ${name}: ${at.message}`)
    return stop.signal.aborted ? 130 : 1
  } finally {
    process.off('SIGINT', interrupt)
    process.off('SIGTERM', interrupt)
  }
}

function parse(argv: string[]) {
  try {
    const flag = { type: 'boolean', default: false } as const
    return parseArgs({ args: argv, allowPositionals: true, options: { json: flag, full: flag, 'no-peer': flag } })
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n${list()}`)
    process.exit(2)
  }
}

function list(): string {
  const names = Object.entries(BENCHMARKS).map(([name, { about, peer }]) => `  ${name.padEnd(12)}${about}, against ${peer}`)
  return ['usage: npm run bench -- <name> [--json] [--full] [--no-peer]', ...names, ''].join('\n')
}

/** The figures at the top are those of the weakest case. */
function report(name: string, { peer }: Benchmark, cases: readonly Case[], loadBefore: number[]) {
  const [weakest] = [...cases].sort((a, b) => (a.ratio ?? 0) - (b.ratio ?? 0))
  return { name, against: peer, ...weakest, cases, machine: machine(loadBefore) }
}

function print(name: string, { about, peer }: Benchmark, cases: readonly Case[], loadBefore: number[]): string {
  const { cores, cpu, kernel, node, load_before, load_after } = machine(loadBefore)
  const host = `${cores} cores (${cpu}), Linux ${kernel}, Node ${node}, load ${load_before} before and ${load_after} after`
  return `${name}: ${about}, against ${peer}\n\n${table(cases)}\n\n${host}\n`
}

function machine(loadBefore: number[]) {
  const load = (values: number[]) => Number((values[0] ?? 0).toFixed(2))
  return {
    cores: cpus().length,
    cpu: cpus()[0]?.model ?? 'unknown',
    kernel: release(),
    node: process.versions.node,
    load_before: load(loadBefore),
    load_after: load(loadavg()),
  }
}
