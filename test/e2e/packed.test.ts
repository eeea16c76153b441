import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { citedPages } from '../../tools/pack/carry-docs.ts'
import { filesIn, specifiersIn } from '../../tools/pack/specifiers.ts'
import { CliHome } from './cli-home.ts'
import { leftovers } from './leftovers.ts'

const run = promisify(execFile)
const TSC = resolve('node_modules/.bin/tsc')
const TYPES = resolve('node_modules/@types')
/** A user has Node 24 in PATH; this machine's own may be older. */
const PATH = `${dirname(process.execPath)}:${process.env.PATH}`
const env = { ...process.env, PATH }

// npm downloads packages, and tsc takes its time on a busy machine.
describe('the packages as they are published', { timeout: 240_000 }, () => {
  let folder: string
  let dist: string
  let app: string
  let tarballs: string[]

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sandglass-packed-'))
    dist = join(folder, 'dist')
    app = join(folder, 'app')
    await run('tools/dev', ['pack', dist])
    tarballs = readdirSync(dist).map(name => join(dist, name))
    mkdirSync(app)
    await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', ...tarballs], { cwd: app, env })
  }, 240_000)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('hold JavaScript and declarations, and neither TypeScript nor tests', async () => {
    expect(tarballs.length).toBe(readdirSync('packages').length)
    for (const tarball of tarballs) {
      const names = (await run('tar', ['tzf', tarball])).stdout.trim().split('\n')
      expect(names).toContain('package/LICENSE')
      if (tarball.includes('sandglass-cli')) expect(names).toContain('package/man/sandglass.1')
      expect(names.filter(name => name.endsWith('.ts') && !name.endsWith('.d.ts'))).toEqual([])
      expect(names.filter(name => /\.(test|fixture)\.|conformance|plain-child/.test(name))).toEqual([])
    }
  })

  it('include the documentation pages that their messages name, and the cli package those of all packages', () => {
    const installed = (name: string) => join(app, 'node_modules/@sandglass', name)
    const cited = readdirSync('packages').map(name => [name, citedPages(installed(name))] as const)
    expect(cited.flatMap(([, pages]) => pages)).toContain('docs/reference/configuration.md')
    for (const [name, pages] of cited)
      for (const page of pages)
        for (const holder of [name, 'cli'])
          expect(readFileSync(join(installed(holder), page), 'utf8')).toBe(readFileSync(page, 'utf8'))
  })

  it.each([
    ['x64', 'runner', 0x3e],
    ['x64', 'launcher', 0x3e],
    ['arm64', 'runner', 0xb7],
    ['arm64', 'launcher', 0xb7],
  ])('bring a static program for %s: %s', (machine, program, code) => {
    const elf = readFileSync(join(app, `node_modules/@sandglass/daemon/runner/linux-${machine}`, program))
    expect(elf.subarray(0, 4).toString('latin1')).toBe('\x7fELF')
    expect(elf.readUInt16LE(18)).toBe(code)
    expect(segmentTypes(elf)).not.toContain(PT_INTERP)
  })

  it('have a command line that creates, uses and removes a session without the repository', async () => {
    const home = await CliHome.open({ program: join(app, 'node_modules/.bin/sandglass'), path: PATH })
    try {
      const { version } = JSON.parse(readFileSync('packages/cli/package.json', 'utf8'))
      expect((await run('npx', ['--no-install', 'sandglass', 'version'], { cwd: app, env })).stdout).toBe(
        `sandglass ${version}\n`,
      )
      expect(await home.run(['new', 'packed'])).toMatchObject({ code: 0, stdout: expect.stringContaining('packed') })
      expect(await home.run(['exec', 'packed', '-c', 'cd /tmp && export WHO=packed'])).toMatchObject({ code: 0 })
      expect(await home.run(['exec', 'packed', '-c', 'echo $WHO in $PWD; exit 7'])).toMatchObject({
        code: 7,
        stdout: 'packed in /tmp\n',
      })
      expect(readFileSync(`/proc/${home.daemonPid}/cmdline`, 'utf8')).toContain(
        join(app, 'node_modules/@sandglass/daemon/src/main.js'),
      )
      // Thrown by the SDK's own copy of the error class, and still known to the command line.
      expect(await home.run(['inspect', 'nobody'])).toMatchObject({
        code: 4,
        stderr: expect.stringMatching(/^sandglass: no session nobody\n/),
      })
      expect(await home.run(['rm', '-f', 'packed'])).toMatchObject({ code: 0 })
      expect(await home.run(['shutdown'])).toMatchObject({ code: 0 })
      await expect.poll(() => leftovers(home.dataDir).processes).toEqual([])
    } finally {
      await home.close()
    }
  })

  it('say what is missing when they come without a runner for this machine', async () => {
    const runner = join(app, `node_modules/@sandglass/daemon/runner/linux-${process.arch}/runner`)
    const home = await CliHome.open({ program: join(app, 'node_modules/.bin/sandglass'), path: PATH })
    renameSync(runner, `${runner}.away`)
    try {
      const found = await home.run(['doctor'])
      expect(found).toMatchObject({ code: 3, stdout: expect.stringMatching(/failed +runner: .* is missing\n +fix: install/) })
      const made = await home.run(['new'])
      expect(made).toMatchObject({ code: 3, stderr: expect.stringContaining(`${runner} is missing`) })
    } finally {
      renameSync(`${runner}.away`, runner)
      await home.close()
    }
  })

  it('let a program use the SDK with nothing else installed', async () => {
    const alone = join(folder, 'alone')
    await unpackSdk(alone)
    expect(readdirSync(join(alone, 'node_modules'))).toEqual(['@sandglass'])
    const script = `
      import { SandboxClient, SandglassError } from '@sandglass/sdk'
      import { connectLocal } from '@sandglass/sdk/node'
      const client = new SandboxClient({ baseUrl: 'http://127.0.0.1:1', apiKey: 'k', retries: 0 })
      const error = await client.health().catch(error => error)
      const local = await connectLocal({ dataDir: '/nowhere' }).health().catch(error => error)
      console.log(error instanceof SandglassError, error.code, local.code, local.message, local.hint)`
    writeFileSync(join(alone, 'use.mjs'), script)
    const { stdout } = await run(process.execPath, ['use.mjs'], { cwd: alone, env: { PATH: '/nowhere' } })
    expect(stdout).toMatch(
      /^true DAEMON_UNREACHABLE DAEMON_UNREACHABLE .*there is no `sandglass` command.* install @sandglass\/cli/,
    )
  })

  it('let Node 20 use the SDK: all of it and its README, with a daemon that the command line in PATH starts', async () => {
    const project = join(folder, 'old')
    await unpackSdk(project)
    const node20 = await oldestNode(folder)
    const home = await CliHome.open({ program: join(app, 'node_modules/.bin/sandglass'), path: PATH })
    const inPath = { ...home.env, PATH: `${join(app, 'node_modules/.bin')}:${PATH}` }
    try {
      cpSync('test/e2e/sdk-program.mjs', join(project, 'program.mjs'))
      const { stdout } = await run(node20, ['program.mjs'], { cwd: project, env: inPath })
      expect(stdout).toBe('SESSION_NOT_FOUND\nshell-42 typed 0\nDIALLED FORWARDED\nterminated requested\n')
      const [code = ''] = /(?<=^```js\n).*?(?=^```$)/ms.exec(readFileSync('packages/sdk/README.md', 'utf8')) ?? []
      writeFileSync(join(project, 'readme.mjs'), code)
      expect((await run(node20, ['readme.mjs'], { cwd: project, env: inPath })).stdout).toBe('sandglass in /tmp\n\n')
    } finally {
      await home.close()
    }
  })

  it('have an SDK that uses only what ES2023 has, as its oldest Node does', async () => {
    const project = join(folder, 'es2023')
    mkdirSync(project)
    const compilerOptions = {
      ...JSON.parse(readFileSync('tsconfig.json', 'utf8')).compilerOptions,
      lib: ['es2023', 'esnext.disposable', 'dom', 'dom.iterable', 'dom.asynciterable'],
      typeRoots: [TYPES],
    }
    const files = ['index.ts', 'node/index.ts'].map(path => resolve('packages/sdk/src', path))
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
    await expect(run(TSC, ['-p', project])).resolves.toMatchObject({ stdout: '' })
  })

  it('let a browser load the SDK without a bundler: every import in it is a path', () => {
    const source = join(app, 'node_modules/@sandglass/sdk/src')
    const code = filesIn(source).filter(path => path.endsWith('.js') && !path.startsWith(join(source, 'node/')))
    const imported = code.flatMap(path => specifiersIn(readFileSync(path, 'utf8')))
    expect(imported.length).toBeGreaterThan(10)
    expect(imported.filter(specifier => !/^\.\.?\//.test(specifier))).toEqual([])
  })

  it.each([
    ['Node', 'connectLocal', { module: 'nodenext', lib: ['es2024', 'esnext.disposable'], types: ['node'], typeRoots: [TYPES] }],
    [
      'a bundler',
      'SandboxClient',
      { module: 'esnext', moduleResolution: 'bundler', lib: ['es2024', 'esnext.disposable', 'dom'], types: [] },
    ],
  ])('have types that need nothing else installed, for %s', async (_, entry, options) => {
    const project = join(folder, `types-${entry}`)
    await unpackSdk(project)
    writeFileSync(join(project, 'package.json'), '{ "type": "module" }')
    writeFileSync(join(project, 'use.ts'), CONNECT[entry] + CONSUMER)
    const compilerOptions = { ...options, target: 'es2024', strict: true, noEmit: true, skipLibCheck: false }
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['use.ts'] }))
    await expect(run(TSC, ['-p', project])).resolves.toMatchObject({ stdout: '' })
  })

  async function unpackSdk(project: string): Promise<void> {
    const target = join(project, 'node_modules/@sandglass/sdk')
    mkdirSync(target, { recursive: true })
    const tarball = tarballs.find(path => path.includes('sandglass-sdk-')) ?? ''
    await run('tar', ['xzf', tarball, '--strip-components=1', '-C', target])
  }
})

/** The oldest Node that the SDK's package names; npm has it as a package. */
async function oldestNode(folder: string): Promise<string> {
  const { engines } = JSON.parse(readFileSync('packages/sdk/package.json', 'utf8'))
  const [version] = /\d+\.\d+\.\d+/.exec(engines.node) ?? []
  const name = `node-linux-${process.arch}`
  const prefix = join(folder, 'node-20')
  await run('npm', ['install', '--prefix', prefix, '--prefer-offline', '--no-audit', '--no-fund', `${name}@${version}`], { env })
  return join(prefix, 'node_modules', name, 'bin/node')
}

const CONNECT: Record<string, string> = {
  connectLocal: `import { connectLocal } from '@sandglass/sdk/node'
    const client = connectLocal()`,
  SandboxClient: `import { SandboxClient } from '@sandglass/sdk'
    const client = new SandboxClient({ baseUrl: 'http://127.0.0.1:8080', apiKey: 'k' })`,
}

/** Each line that has to be refused would pass if what it uses had no type. */
const CONSUMER = `
  import { SandglassError, type SessionInfo } from '@sandglass/sdk'
  const session = await client.createSession({ memoryMb: 512, env: { A_B: 'c' } })
  const info: SessionInfo = session.info
  export const status: 'running' | 'paused' | string = info.status
  for await (const { chunk } of session.execStream('true')) chunk.toUpperCase()
  export const code: number = (await session.exec('true', { timeoutMs: 1000, signal: AbortSignal.timeout(1) })).exitCode
  export const id = (error: unknown): string | undefined =>
    error instanceof SandglassError && error.is('SESSION_NOT_FOUND') ? error.detail.id : undefined
  // @ts-expect-error
  await client.createSession({ memoryMb: 'much' })
  // @ts-expect-error
  await client.createSession({ colour: 'red' })
  // @ts-expect-error
  export const wrong: string = (await session.exec('true')).exitCode
  // @ts-expect-error
  session.info.noSuchField
`

const PT_INTERP = 3

/** Of a 64-bit little-endian ELF file. */
function segmentTypes(elf: Buffer): number[] {
  const [offset, size, count] = [Number(elf.readBigUInt64LE(32)), elf.readUInt16LE(54), elf.readUInt16LE(56)]
  return Array.from({ length: count }, (_, i) => elf.readUInt32LE(offset + i * size))
}
