// From packages/*/src to the same tree of JavaScript and declarations. Only what the entry points reach is written: no test, no fixture.
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { entryPoints, type Manifest } from './manifest.ts'
import { filesIn, withSpecifiers } from './specifiers.ts'

type Manifests = Readonly<Record<string, Manifest>>

export function emit(manifests: Manifests, stage: string): void {
  const files = Object.entries(manifests).flatMap(([folder, manifest]) =>
    entryPoints(manifest).map(entry => resolve('packages', folder, entry)),
  )
  const project = join(stage, 'tsconfig.json')
  const compilerOptions = optionsFor(manifests, stage)
  writeFileSync(project, JSON.stringify({ extends: resolve('tsconfig.json'), compilerOptions, files, include: [] }))
  const { status, stdout } = spawnSync('node_modules/.bin/tsc', ['-p', project], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`tsc failed:\n${stdout}`)
  for (const [folder, { exports }] of Object.entries(manifests)) {
    for (const path of filesIn(join(stage, folder)).filter(file => /\.d\.m?ts$/.test(file))) {
      if (exports) rewriteDeclarations(path)
      else rmSync(path)
    }
  }
}

/** The compiler rewrites the specifiers of the code, and leaves those of the declarations. */
function rewriteDeclarations(path: string): void {
  const text = readFileSync(path, 'utf8')
  writeFileSync(
    path,
    withSpecifiers(text, specifier => specifier.replace(/^(\..*)\.ts$/, '$1.js')),
  )
}

const optionsFor = (manifests: Manifests, stage: string) => ({
  noEmit: false,
  rootDir: resolve('packages'),
  outDir: stage,
  typeRoots: [resolve('node_modules/@types')],
  // Without these, what is first found through the links in node_modules counts as somebody else's and is left out.
  paths: Object.fromEntries(
    Object.entries(manifests).flatMap(([folder, { name, exports = {} }]) =>
      Object.entries(exports).map(([path, file]) => [join(name, path), [resolve('packages', folder, file)]]),
    ),
  ),
  declaration: true,
  rewriteRelativeImportExtensions: true,
  allowJs: true,
})
