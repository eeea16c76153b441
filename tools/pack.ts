// `tools/dev pack [FOLDER]`: every package as it is published, a tarball each, in dist/ or FOLDER. TypeScript is stripped by Node outside
// node_modules only, so an installed package is JavaScript: the same tree with .js and .d.ts in the place of .ts.
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { carryDocs } from './pack/carry-docs.ts'
import { carryTables } from './pack/carry-tables.ts'
import { checkWhole } from './pack/check.ts'
import { emit } from './pack/emit.ts'
import { packedManifest, readManifests } from './pack/manifest.ts'

const { positionals } = parseArgs({ allowPositionals: true })
const target = resolve(positionals[0] ?? 'dist')

const stage = mkdtempSync(join(tmpdir(), 'sandglass-pack-'))
try {
  const manifests = readManifests()
  emit(manifests, stage)
  for (const [folder, manifest] of Object.entries(manifests)) {
    writeFileSync(join(stage, folder, 'package.json'), `${JSON.stringify(packedManifest(manifest, manifests), null, 2)}\n`)
    cpSync('LICENSE', join(stage, folder, 'LICENSE'))
    if (manifest.man) cpSync(join('packages', folder, manifest.man), join(stage, folder, manifest.man))
    if (existsSync(`packages/${folder}/README.md`)) cpSync(`packages/${folder}/README.md`, join(stage, folder, 'README.md'))
  }
  carryTables(join(stage, 'contract/src'), join(stage, 'sdk/src'))
  carryDocs(stage, Object.keys(manifests))
  carryRunners(join(stage, 'daemon/runner'))
  const folders = Object.keys(manifests).map(folder => join(stage, folder))
  folders.forEach(checkWhole)
  mkdirSync(target, { recursive: true })
  for (const old of readdirSync(target)) if (/^sandglass-.*\.tgz$/.test(old)) rmSync(join(target, old))
  const made = execFileSync('npm', ['pack', '--silent', '--ignore-scripts', `--pack-destination=${target}`, ...folders], {
    encoding: 'utf8',
  })
  for (const name of made.trim().split('\n')) {
    const path = join(target, basename(name))
    console.log(`${path} (${(statSync(path).size / 1024).toFixed(0)} KiB)`)
  }
} finally {
  rmSync(stage, { recursive: true, force: true })
}

/** For every machine that Sandglass runs on, so that who installs it needs no Go. */
function carryRunners(folder: string): void {
  for (const machine of ['linux-x64', 'linux-arm64']) cpSync(`runner/bin/${machine}`, join(folder, machine), { recursive: true })
}
