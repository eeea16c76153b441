import { describe, expect, it } from 'vitest'
import { code, isTest, linesMatching, read, TYPESCRIPT } from './tree.ts'

const PRODUCT = TYPESCRIPT.filter(path => path.startsWith('packages/') && !isTest(path))

// The entry points: they read the environment and hand it on as arguments.
const ENTRY = [
  'packages/egress/src/main.ts',
  'packages/daemon/src/main.ts',
  'packages/cli/bin/sandglass.mjs',
  'packages/cli/src/main.ts',
  'packages/sdk/src/node/connect-local.ts',
]

// Files of tests that await a timer, and why that is no sleep.
const AWAITED_TIMERS: Record<string, string> = {
  'packages/daemon/src/layers/layer-folders.test.ts': 'the body of a request that arrives slowly',
  'packages/daemon/src/sessions/lifecycle/reconcile.test.ts': 'kills the daemon at a random moment',
  'packages/daemon/src/testing/daemon.fixture.ts': 'polls a condition until a deadline',
  'packages/daemon/src/testing/daemon-process.fixture.ts': 'polls a condition until a deadline',
  'packages/sdk/src/transport/streams.test.ts': 'lets one turn of the event loop pass',
  'test/e2e/crash.test.ts': 'kills the daemon at a chosen moment',
  'test/e2e/deadline.ts': 'polls a condition until a deadline',
  'test/e2e/tasks/trouble.test.ts': 'kills the daemon at a chosen moment',
}

const find = (paths: string[], pattern: RegExp) => paths.flatMap(path => linesMatching(path, pattern, code(path)))

describe('source', () => {
  it('reads the environment in the entry points and nowhere else', () => {
    expect(
      find(
        PRODUCT.filter(path => !ENTRY.includes(path)),
        /\bprocess\s*\.\s*env\b|\benv\b.*from 'node:process'/,
      ),
    ).toEqual([])
  })

  it('mocks no module', () => {
    expect(
      find(
        TYPESCRIPT.filter(path => !path.startsWith('test/gates/')),
        /\bvi\s*\.\s*(mock|doMock|hoisted)\b/,
      ),
    ).toEqual([])
  })

  it('swallows no error: a catch that does nothing says why', () => {
    const empty = TYPESCRIPT.flatMap(path => {
      const source = code(path)
      const blocks = [
        ...source.matchAll(/\bcatch\s*(?:\([^)]*\)\s*)?\{\s*\}|\.catch\(\s*(?:async\s*)?\(?[^()]*\)?\s*=>\s*\{\s*\}\s*\)/g),
      ]
      return blocks.map(b => `${path}:${source.slice(0, b.index).split('\n').length}`).filter(place => !isExplained(place))
    })
    expect(empty).toEqual([])
  })

  it('never silences the compiler', () => {
    const casts = find(PRODUCT, /\bas unknown as\b|:\s*any\b|\bas any\b|@ts-(ignore|expect-error|nocheck)/)
    expect(casts.filter(line => !line.startsWith('packages/contract/src/'))).toEqual([])
  })

  it('keeps state out of modules: nothing assigns to a variable at the top of a file', () => {
    expect(find(PRODUCT, /^(export )?let\b/)).toEqual([])
  })

  it('ends the process in the entry points alone; a command that is interrupted may', () => {
    const paths = PRODUCT.filter(path => !ENTRY.includes(path) && !path.startsWith('packages/cli/src/exec/'))
    expect(find(paths, /\bprocess\s*\.\s*exit\(/)).toEqual([])
  })

  it('waits for conditions: a test that awaits a timer has a reason in the table', () => {
    const tests = TYPESCRIPT.filter(isTest).filter(path => !path.startsWith('test/gates/'))
    expect(tests.filter(path => awaitsTimer(code(path))).sort()).toEqual(Object.keys(AWAITED_TIMERS).sort())
  })

  it('finds an awaited timer under each name that it can have', () => {
    const timers = [
      "import { setTimeout as pause } from 'node:timers/promises'\nawait pause(ms)",
      "import { setTimeout } from 'node:timers/promises'\nawait setTimeout(WAIT_MS, undefined)",
      "import * as timers from 'node:timers/promises'\nawait timers.setTimeout(5)",
      'await new Promise(resolve => setTimeout(resolve, ms))',
      'await new Promise<void>((ok) => { setTimeout(ok, 10) })',
      'await sleep(later)',
    ]
    expect(timers.filter(source => !awaitsTimer(source))).toEqual([])
    expect(awaitsTimer('const timer = setTimeout(() => child.kill(), 5000)\nawait until(() => isGone(pid))')).toBe(false)
  })

  it('narrates no edits in comments', () => {
    const narration =
      /^\s*(\/\/|\*|#).*\b(now properly|as requested|no longer needed|previously|used to be|refactored|new approach|fixed (a|the) (bug|race))\b/i
    expect(TYPESCRIPT.filter(path => !path.startsWith('test/gates/')).flatMap(path => linesMatching(path, narration))).toEqual([])
  })
})

/** A deliberate ignore carries a comment inside its braces: there the source as written differs from the blanked one. */
function isExplained(place: string): boolean {
  const [path = '', line = ''] = place.split(':')
  const around = (text: string) => text.split('\n').slice(Number(line) - 1, Number(line) + 3)
  const blanked = around(code(path))
  return around(read(path)).some((original, i) => original.trimEnd() !== blanked[i]?.trimEnd())
}

/** True for source that awaits a timer: by an imported name, by a name that says so, or by a promise around setTimeout. */
function awaitsTimer(source: string): boolean {
  const imported = [...source.matchAll(/\bsetTimeout as (\w+)[^'"]*from ['"]node:timers\/promises['"]/g)].map(m => m[1])
  const names = ['setTimeout', '\\w+\\.setTimeout', 'sleep', 'delay', ...imported].join('|')
  return (
    new RegExp(`\\bawait\\s+(?:${names})\\(`).test(source) ||
    /new Promise(?:<\w+>)?\(\s*\(?(\w+)\)?\s*=>\s*\{?\s*setTimeout\(\s*\1\b/.test(source)
  )
}
