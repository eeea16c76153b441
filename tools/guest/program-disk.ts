// A disk with this repository's programs, bundled: a guest without hardware support takes half a minute to strip types from every file.
import { chmodSync, cpSync, existsSync, mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { capture, tail } from '../test/stage.ts'

/** Where each entry goes, below the place that a clone has in the guest. Paths that the code finds its files by stay as they are. */
const BUNDLES = {
  'packages/cli/bin/sandglass.mjs': 'packages/cli/bin/sandglass.mjs',
  'packages/daemon/src/main.ts': 'packages/daemon/src/main.mjs',
  'packages/daemon/src/backends/oci/conform.fixture.ts': 'guest/conform.mjs',
  'packages/daemon/src/backends/oci/starter.fixture.ts': 'guest/starter.mjs',
  'tools/guest/inside.ts': 'guest/inside.mjs',
}
const COPIES = [
  ...['sandglass', 'packaging', 'runner/bin/runner', 'runner/bin/launcher', 'packages/cli/package.json'],
  ...['package.json', 'lib', 'prebuilds/linux-x64.node'].map(path => join('node_modules/better-sqlite3', path)),
]
/** Where setup could fetch it. */
const GVISOR = '.cache/gvisor/runsc'
/** better-sqlite3 is beside the bundle; the others are parts of an ssh client that do without. */
const APART = ['better-sqlite3', 'cpu-features', '*.node']
/** What modules of the older kind find around them. */
const AROUND = [
  "import { createRequire } from 'node:module'",
  'const require = createRequire(import.meta.url), __dirname = import.meta.dirname, __filename = import.meta.filename',
].join(';')
const SIZE_MB = 400

/** Makes the disk `folder/programs`, with `plan` as guest/plan.json. */
export async function programDisk(folder: string, plan: object): Promise<string> {
  const [tree, disk] = [join(folder, 'tree'), join(folder, 'programs')]
  const clone = join(tree, 'sandglass')
  rmSync(tree, { recursive: true, force: true })
  for (const path of [...COPIES, ...[GVISOR].filter(existsSync)]) copy(path, join(clone, path))
  copy(process.execPath, join(clone, 'node_modules/.bin/node'))
  await Promise.all(Object.entries(BUNDLES).map(([entry, to]) => bundle(entry, join(clone, to))))
  chmodSync(join(clone, 'packages/cli/bin/sandglass.mjs'), 0o755)
  const daemon = { name: '@sandglass/daemon', version: '0.0.0', type: 'module', exports: { './main': './src/main.mjs' } }
  writeFileSync(join(clone, 'packages/daemon/package.json'), JSON.stringify(daemon))
  mkdirSync(join(clone, 'node_modules/@sandglass'))
  symlinkSync('../../packages/daemon', join(clone, 'node_modules/@sandglass/daemon'))
  writeFileSync(join(clone, 'guest/plan.json'), JSON.stringify(plan))
  writeFileSync(disk, '')
  truncateSync(disk, SIZE_MB * 1024 * 1024)
  await run('guest-programs', ['mke2fs', '-q', '-F', '-t', 'ext4', '-O', '^has_journal', '-d', tree, disk])
  rmSync(tree, { recursive: true })
  return disk
}

function copy(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true })
  cpSync(from, to, { recursive: true, dereference: true })
}

async function bundle(entry: string, outfile: string): Promise<void> {
  const options = [
    '--bundle',
    '--platform=node',
    '--format=esm',
    '--log-level=error',
    '--minify-whitespace',
    '--minify-syntax',
    `--banner:js=${AROUND}`,
    `--outfile=${outfile}`,
  ]
  const argv = ['node_modules/.bin/esbuild', entry, ...options, ...APART.map(name => `--external:${name}`)]
  await run(`guest-${entry.replaceAll('/', '-')}`, argv)
}

async function run(log: string, argv: string[]): Promise<void> {
  const { code, output } = await capture(log, argv)
  if (code !== 0) throw new Error(`${argv.slice(0, 2).join(' ')} failed:\n${tail(output, 30)}`)
}
