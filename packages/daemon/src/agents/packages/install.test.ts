import { createHash } from 'node:crypto'
import { mkdir, readdir, readlink, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { AgentName, InstallProgress, RouteReply } from '@sandglass/contract'
import { expect, it } from 'vitest'
import { daemonFixture, type TestDaemon, temporaryFolder, until } from '../../testing/daemon.fixture.ts'
import { agentTarball, type Entry, type SmallRegistry, smallRegistry, tarballOf } from '../testing/small-registry.fixture.ts'
import { type AgentContext, agentState, type InstallLimits } from './context.ts'
import { ensureAgent, ensureVersion } from './install.ts'
import { AGENT_PACKAGES, platformPackage } from './table.ts'

const MiB = 1024 * 1024

async function daemonWith(registry: SmallRegistry, agents: object = {}, dataDir?: string): Promise<TestDaemon> {
  const config = join(await temporaryFolder(), 'config.yaml')
  await writeFile(config, JSON.stringify({ agents: { registry: registry.url, ...agents } }), { mode: 0o600 })
  return await daemonFixture({ flags: { config: [config] }, ...(dataDir === undefined ? {} : { dataDir }) })
}

const withLimits = ({ context }: TestDaemon, limits: Partial<InstallLimits>): AgentContext => ({
  ...context,
  agents: agentState(limits),
})

const folders = ({ dataDir }: TestDaemon, agent: AgentName) =>
  readdir(join(dataDir, 'agents', agent)).then(names => names.toSorted())

const agentsOf = async (daemon: TestDaemon, agent: AgentName) =>
  ((await daemon.call('GET', '/v1/agents')).body as RouteReply<'listAgents'>).items.find(item => item.agent === agent)

async function install(daemon: TestDaemon, agent: AgentName, version?: string) {
  const { text } = await daemon.call('POST', `/v1/agents/${agent}/install`, version === undefined ? {} : { version })
  return [...text.matchAll(/^event: (\w+)\ndata: (.*)$/gm)].map(([, event = '', data = '']) => ({
    event,
    data: JSON.parse(data),
  }))
}

const now = (context: AgentContext, agent: AgentName, version: string) =>
  ensureVersion(context, agent, version, () => undefined, AbortSignal.timeout(20_000))

it('the real package of an agent is downloaded, checked against its pinned digest, and unpacked', {
  timeout: 300_000,
}, async () => {
  const daemon = await daemonFixture()
  const steps: InstallProgress[] = []
  const install = () => ensureAgent(daemon.context, 'opencode', step => steps.push(step))
  // The registry is on the internet: a connection that breaks once is not what this is about.
  const { version, digest, folder } = await install().catch(install)
  expect(version).toBe(AGENT_PACKAGES.opencode.version)
  expect(folder).toBe(join(daemon.dataDir, 'agents/opencode', digest))
  expect((await stat(join(folder, 'bin/opencode'))).mode & 0o7777).toBe(0o755)
  const downloads = steps.filter(({ step }) => step === 'download')
  expect(downloads.at(-1)).toMatchObject({ agent: 'opencode', version, bytes: downloads.at(-1)?.total_bytes })
  expect(steps.at(-1)?.step).toBe('done')
  expect(await agentsOf(daemon, 'opencode')).toMatchObject({ version, pinned_version: version, installed: [{ version, digest }] })
  expect(await ensureAgent(daemon.context, 'opencode')).toEqual({ version, digest, folder })
  expect((await daemon.call('DELETE', '/v1/agents/opencode')).status).toBe(200)
  expect(await folders(daemon, 'opencode')).toEqual([])
})

it('a version that was asked for is what new sessions get, until the pinned one is asked for', async () => {
  const registry = await smallRegistry()
  const tarball = await agentTarball('codex', { name: 'package/sub', type: 'directory', mode: 0o700 })
  registry.publish('codex', '9.9.9', tarball)
  registry.tagLatest('codex', '9.9.9')
  const daemon = await daemonWith(registry)
  const digest = createHash('sha256').update(tarball).digest('hex')
  const bytes = '#!/bin/sh\necho hello\n{}'.length
  expect((await install(daemon, 'codex', 'latest')).at(-1)).toEqual({
    event: 'done',
    data: { step: 'done', agent: 'codex', version: '9.9.9', bytes, total_bytes: bytes },
  })
  const listed = await agentsOf(daemon, 'codex')
  expect(listed).toMatchObject({ version: '9.9.9', pinned_version: AGENT_PACKAGES.codex.version, has_key: false })
  expect(listed?.installed).toMatchObject([{ version: '9.9.9', digest, bytes }])
  const { folder } = await ensureAgent(daemon.context, 'codex')
  const modes = ['', 'bin', 'sub', 'package.json', platformPackage('codex').program]
  expect(await Promise.all(modes.map(async path => (await stat(join(folder, path))).mode & 0o7777))).toEqual([
    0o755, 0o755, 0o755, 0o644, 0o755,
  ])
  expect(await readlink(join(folder, 'bin/codex'))).toBe(`../${platformPackage('codex').program}`)
  await daemon.call('DELETE', '/v1/agents/codex')
  expect(await agentsOf(daemon, 'codex')).toMatchObject({ version: AGENT_PACKAGES.codex.version, installed: [] })
})

it('the configuration decides the version, whatever was asked for', async () => {
  const registry = await smallRegistry()
  for (const version of ['1.0.0', '2.0.0'])
    registry.publish('claude', version, await agentTarball('claude', { name: 'package/version', content: version }))
  const daemon = await daemonWith(registry, { versions: { claude: '1.0.0' } })
  await install(daemon, 'claude', '2.0.0')
  expect((await ensureAgent(daemon.context, 'claude')).version).toBe('1.0.0')
  expect((await agentsOf(daemon, 'claude'))?.installed.map(({ version }) => version).toSorted()).toEqual(['1.0.0', '2.0.0'])
})

it('bytes that do not have the pinned digest are refused, and nothing of them stays', async () => {
  const registry = await smallRegistry()
  registry.publish('claude', AGENT_PACKAGES.claude.version, await agentTarball('claude'))
  const daemon = await daemonWith(registry)
  expect(await install(daemon, 'claude')).toMatchObject([
    { event: 'progress' },
    {
      event: 'error',
      data: { code: 'AGENT_INSTALL_FAILED', detail: { why: expect.stringContaining('do not have the digest') } },
    },
  ])
  expect(await folders(daemon, 'claude')).toEqual([])
  // The digest that the registry itself gives is not asked for.
  expect(registry.asked).toHaveLength(1)
})

it('a body that ends early or never is refused', async () => {
  const registry = await smallRegistry()
  const tarball = await agentTarball('claude')
  registry.publish('claude', '1.0.0', tarball, response => void response.end(tarball.subarray(0, 50)))
  registry.publish('claude', '2.0.0', tarball, response => {
    response.writeHead(200, { 'content-length': tarball.length })
    response.write(tarball.subarray(0, 50), () => response.destroy())
  })
  const endless = Buffer.alloc(MiB)
  registry.publish('claude', '3.0.0', tarball, response => {
    const more = () => void (response.destroyed || response.write(endless, more))
    more()
  })
  registry.publish('claude', '4.0.0', tarball, response => void response.write(tarball.subarray(0, 50)))
  const daemon = await daemonWith(registry)
  const context = withLimits(daemon, { maxBytes: 8 * MiB })
  await expect(now(context, 'claude', '1.0.0')).rejects.toThrow('the 50 bytes that arrived do not have the digest')
  await expect(now(context, 'claude', '2.0.0')).rejects.toMatchObject({ code: 'AGENT_INSTALL_FAILED' })
  await expect(now(context, 'claude', '3.0.0')).rejects.toThrow('more than 8388608 bytes')
  await expect(now(withLimits(daemon, { deadlineMs: 1000 }), 'claude', '4.0.0')).rejects.toThrow('longer than 1 seconds')
  expect(await folders(daemon, 'claude')).toEqual([])
})

it.each<[string, Entry[], RegExp]>([
  ['a symbolic link', [{ name: 'package/x', type: 'symlink', linkname: '/etc' }], /a symlink at "package\/x"/],
  ['a hard link', [{ name: 'package/x', type: 'link', linkname: '/etc/passwd' }], /a link at/],
  ['a device', [{ name: 'package/x', type: 'character-device' }], /a character-device at/],
  ['a path that leads out', [{ name: 'package/../../x', content: 'x' }], /outside of package\//],
  ['an absolute path', [{ name: '/package/x', content: 'x' }], /outside of package\//],
  ['another folder', [{ name: 'other/x', content: 'x' }], /outside of package\//],
  ['a file twice', [{ name: 'package/package.json', content: 'x' }], /EEXIST|file already exists/],
  ['a file as a folder', [{ name: 'package/package.json/x', content: 'x' }], /EEXIST|ENOTDIR/],
  ['our own record', [{ name: 'package/sandglass.json', content: '{}' }], /EEXIST|file already exists/],
  ['too much content', [{ name: 'package/x', content: 'x'.repeat(2 * MiB) }], /too large/],
])('a package with %s is refused, and nothing of it stays', async (_, entries, message) => {
  const registry = await smallRegistry()
  registry.publish('claude', '1.0.0', await agentTarball('claude', ...entries))
  const daemon = await daemonWith(registry)
  await expect(now(withLimits(daemon, { maxUnpackedBytes: MiB }), 'claude', '1.0.0')).rejects.toThrow(message)
  expect(await folders(daemon, 'claude')).toEqual([])
})

it('a package without its program, and one that is no archive, are refused', async () => {
  const registry = await smallRegistry()
  registry.publish('claude', '1.0.0', await tarballOf({ name: 'package/package.json', content: '{}' }))
  registry.publish('claude', '2.0.0', Buffer.from('no archive'))
  const { context } = await daemonWith(registry)
  await expect(now(context, 'claude', '1.0.0')).rejects.toThrow('no program claude')
  await expect(now(context, 'claude', '2.0.0')).rejects.toThrow('it is not a tar')
})

it('a registry that does not answer or lacks the version is named in the error', async () => {
  const registry = await smallRegistry()
  const daemon = await daemonWith(registry)
  await expect(now(daemon.context, 'claude', '7.7.7')).rejects.toThrow(/claude 7\.7\.7 could not be installed: .*answered 404/)
  registry.close()
  await expect(now(daemon.context, 'claude', '7.7.7')).rejects.toThrow('ECONNREFUSED')
  expect((await daemon.call('POST', '/v1/sessions', { agents: ['claude'] })).body).toMatchObject({
    error: { code: 'AGENT_INSTALL_FAILED' },
  })
  expect((await daemon.call('GET', '/v1/sessions')).body).toMatchObject({ items: [] })
})

it('a registry without TLS on another machine serves only what has a pinned digest', async () => {
  const daemon = await daemonWith({ ...(await smallRegistry()), url: 'http://registry.invalid' })
  await expect(now(daemon.context, 'claude', '7.7.7')).rejects.toThrow('is used without TLS')
  await expect(ensureAgent(daemon.context, 'claude')).rejects.toThrow('registry.invalid')
})

it('installs of one version at the same time are one download, which ends with the last caller', async () => {
  const registry = await smallRegistry()
  const tarball = await agentTarball('claude')
  const sent = Promise.withResolvers<void>()
  registry.publish('claude', '1.0.0', tarball, response => void sent.promise.then(() => response.end(tarball)))
  const daemon = await daemonWith(registry)
  const gone = new AbortController()
  const leaving = ensureVersion(daemon.context, 'claude', '1.0.0', () => undefined, gone.signal)
  const staying = [1, 2].map(() => now(daemon.context, 'claude', '1.0.0'))
  await until(() => registry.asked.length === 2)
  gone.abort(new Error('gone'))
  await expect(leaving).rejects.toThrow('gone')
  sent.resolve()
  expect(new Set((await Promise.all(staying)).map(({ folder }) => folder)).size).toBe(1)
  expect(registry.asked.filter(path => path.endsWith('.tgz'))).toHaveLength(1)
})

it('what an interrupted install left is removed when the next daemon starts, and installed versions stay', async () => {
  const registry = await smallRegistry()
  registry.publish('claude', '1.0.0', await agentTarball('claude'))
  const daemon = await daemonWith(registry)
  await install(daemon, 'claude', '1.0.0')
  const before = await folders(daemon, 'claude')
  await daemon.close()
  const dir = join(daemon.dataDir, 'agents/claude')
  for (const name of ['0123456789abcdef.new', 'a'.repeat(64), `${'b'.repeat(64)}.old`]) await mkdir(join(dir, name))
  await writeFile(join(dir, '0123456789abcdef.new.tgz'), 'x')
  const next = await daemonWith(registry, {}, daemon.dataDir)
  expect(await folders(next, 'claude')).toEqual(before)
  expect((await ensureAgent(next.context, 'claude')).version).toBe('1.0.0')
})
