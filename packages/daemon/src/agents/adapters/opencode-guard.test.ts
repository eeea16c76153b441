import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { guarded, REFUSED } from './opencode-guard.ts'

/** Runs a guarded `echo started` in a folder of a repository with these files. */
function start(files: Record<string, string>, below = '.') {
  const folder = mkdtempSync(join(tmpdir(), 'sg-guard-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  mkdirSync(join(folder, below), { recursive: true })
  const [program = '', ...args] = guarded(['echo', 'started', '$HOME "quoted"'])
  return spawnSync(program, args, { cwd: join(folder, below), encoding: 'utf8' })
}

test.each([
  ['nothing', {}],
  ['a configuration without plugins', { 'opencode.json': '{"model":"a/b"}', '.opencode/agent/a.md': 'x' }],
])('a repository with %s is fine, and arguments stay as they are', (_title, files) => {
  expect(start(files)).toMatchObject({ status: 0, stdout: 'started $HOME "quoted"\n', stderr: '' })
})

test.each([
  ['a plugin', { '.opencode/plugin/a.ts': '' }, '.'],
  ['plugins', { '.opencode/plugins/a.js': '' }, '.'],
  ['a plugin above the folder', { '.opencode/plugin/a.ts': '' }, 'packages/a'],
  ['a list of plugins', { 'opencode.json': '{"plugin":["./a.ts"]}' }, '.'],
  ['a hidden list of plugins', { '.opencode/opencode.jsonc': '{"\\u0070lugins":["./a.ts"]}' }, '.'],
])('a repository with %s is refused', (_title, files, below) => {
  const { status, stdout, stderr } = start(files, below)
  expect([status, stdout]).toEqual([REFUSED, ''])
  expect(stderr).toContain('set trust_repo_config')
})
