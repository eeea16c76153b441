// Writes what is generated from the contract, the command table and .changes/. `--check` writes nothing and fails on a difference.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { parseArgs } from 'node:util'
import { PAGES } from './gen/pages.ts'

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } })

const pages = await Promise.all(Object.entries(PAGES).map(async ([path, render]) => ({ path, text: await render() })))
const stale = pages.filter(({ path, text }) => !existsSync(path) || readFileSync(path, 'utf8') !== text)

for (const { path, text } of stale) {
  console.log(`${values.check ? 'stale' : 'wrote'} ${path}`)
  if (values.check) continue
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}
if (values.check && stale.length > 0) {
  console.error('run `tools/dev gen` and commit the result')
  process.exitCode = 1
}
// Pages about the command line are made from the generated flags, which this process has in memory as they were.
if (!values.check && stale.some(({ path }) => path.endsWith('.ts')))
  execFileSync(process.execPath, [import.meta.filename], { stdio: 'inherit' })
