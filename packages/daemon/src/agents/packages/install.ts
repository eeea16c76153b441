// Installs a version of an agent: download, check, unpack, rename. Installs of one version share the work. A folder that is named after
// its digest is complete; what an interrupted install leaves has another name, and the next daemon removes it.
import { createHash, randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, open, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { type AgentName, type InstalledAgent, type InstallProgress, SandglassError } from '@sandglass/contract'
import { folderForAll } from '../../backends/rootfs/write-files.ts'
import { freeBytes, reserveBytes } from '../../images/context.ts'
import { renameDurably } from '../../lib/durable-rename.ts'
import { nullIfMissing } from '../../lib/missing-file.ts'
import type { AgentContext } from './context.ts'
import { agentDir, findVersion, RECORD_FILE, versionFolder, wantedVersion } from './installed.ts'
import { NpmRegistry } from './registry.ts'
import { InstallReport } from './report.ts'
import { AGENT_PACKAGES, platformPackage } from './table.ts'
import { unpackPackage } from './unpack.ts'

const MiB = 1024 * 1024
/** Bytes written between two checks of the free disk space. */
const CHECK_INTERVAL = 16 * MiB

export type AgentFolder = { readonly version: string; readonly digest: string; readonly folder: string }

type Listener = (progress: InstallProgress) => void

/** The version that new sessions get, installed if it is missing. Throws AGENT_INSTALL_FAILED or HOST_FULL. */
export async function ensureAgent(
  context: AgentContext,
  agent: AgentName,
  onProgress: Listener = () => undefined,
  signal: AbortSignal = new AbortController().signal,
): Promise<AgentFolder> {
  return await ensureVersion(context, agent, await wantedVersion(context, agent), onProgress, signal)
}

export async function ensureVersion(
  context: AgentContext,
  agent: AgentName,
  version: string,
  onProgress: Listener,
  signal: AbortSignal,
): Promise<AgentFolder> {
  const found = await findVersion(context, agent, version)
  const { digest } = found ?? (await installWith(context, agent, version, onProgress, signal))
  return { version, digest, folder: versionFolder(context, agent, digest) }
}

async function installWith(
  context: AgentContext,
  agent: AgentName,
  version: string,
  onProgress: Listener,
  signal: AbortSignal,
): Promise<InstalledAgent> {
  const { report, done } = installVersion(context, agent, version, signal)
  const stop = report.listen(onProgress)
  try {
    return await done
  } finally {
    stop()
  }
}

/** The work is aborted when the last caller that waits for it is gone. */
export function installVersion(
  context: AgentContext,
  agent: AgentName,
  version: string,
  signal: AbortSignal,
): { report: InstallReport; done: Promise<InstalledAgent> } {
  const flight = context.agents.installs.start(
    `${agent} ${version}`,
    () => new InstallReport(),
    async (report, stop) => {
      stop.throwIfAborted()
      return (await findVersion(context, agent, version)) ?? (await install({ context, agent, version, report, signal: stop }))
    },
  )
  return { report: flight.progress, done: flight.join(signal) }
}

/** The newest version that the registry has. */
export async function latestVersion(context: AgentContext, agent: AgentName, signal: AbortSignal): Promise<string> {
  const registry = new NpmRegistry(context.config.agents.registry)
  try {
    return await registry.latest(AGENT_PACKAGES[agent].main, signal)
  } catch (error) {
    signal.throwIfAborted()
    throw failed(agent, 'latest', error)
  } finally {
    registry.close()
  }
}

interface Install {
  readonly context: AgentContext
  readonly agent: AgentName
  readonly version: string
  readonly report: InstallReport
  readonly signal: AbortSignal
}

async function install(run: Install): Promise<InstalledAgent> {
  const { context, agent, version, signal } = run
  const dir = agentDir(context, agent)
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const building = join(dir, `${randomBytes(8).toString('hex')}.new`)
  const tarball = `${building}.tgz`
  const deadline = AbortSignal.timeout(context.agents.limits.deadlineMs)
  const limited = { ...run, signal: AbortSignal.any([signal, deadline]) }
  try {
    const digest = await download(limited, tarball)
    const installed = await place(limited, tarball, building, digest)
    run.report.set({ step: 'done', agent, version, bytes: installed.bytes, total_bytes: installed.bytes })
    context.log.info({ agent, version, digest, bytes: installed.bytes }, 'agent installed')
    return installed
  } catch (error) {
    signal.throwIfAborted()
    const late = `it took longer than ${context.agents.limits.deadlineMs / 1000} seconds`
    throw failed(agent, version, deadline.aborted ? new Error(late) : error)
  } finally {
    await rm(tarball, { force: true })
    await rm(building, { recursive: true, force: true })
  }
}

/** Returns the SHA-256 of the tarball. SECURITY: nothing of it is used before its SHA-512 is the expected one. */
async function download({ context, agent, version, report, signal }: Install, path: string): Promise<string> {
  const { name, suffix, integrity } = platformPackage(agent)
  const { maxBytes } = context.agents.limits
  const registry = new NpmRegistry(context.config.agents.registry)
  const isPinned = version === AGENT_PACKAGES[agent].version
  try {
    const expected = (isPinned ? integrity : null) ?? (await registry.integrity(name, `${version}${suffix}`, signal))
    const { body, bytes: total } = await registry.tarball(name, `${version}${suffix}`, signal)
    const [sha512, sha256] = [createHash('sha512'), createHash('sha256')]
    const onBytes = spaceCheck(context)
    let bytes = 0
    await using file = await open(path, 'wx', 0o600)
    for await (const piece of body as AsyncIterable<Buffer>) {
      bytes += piece.length
      if (bytes > maxBytes) throw new Error(`the package has more than ${maxBytes} bytes`)
      await onBytes(piece.length)
      sha512.update(piece)
      sha256.update(piece)
      await file.write(piece)
      report.set({ step: 'download', agent, version, bytes, total_bytes: total })
    }
    if (!expected.split(/\s+/).includes(`sha512-${sha512.digest('base64')}`))
      throw new Error(`the ${bytes} bytes that arrived do not have the digest of the package`)
    return sha256.digest('hex')
  } finally {
    registry.close()
  }
}

async function place(run: Install, tarball: string, building: string, digest: string): Promise<InstalledAgent> {
  const { context, agent, version, report, signal } = run
  report.set({ step: 'unpack', agent, version, bytes: 0, total_bytes: null })
  const limit = { maxBytes: context.agents.limits.maxUnpackedBytes, onBytes: spaceCheck(context) }
  const bytes = await unpackPackage(tarball, building, limit, signal)
  await linkProgram(building, agent)
  const record = { version, digest, bytes, installed_at: new Date(context.now()).toISOString() }
  await writeFile(join(building, RECORD_FILE), JSON.stringify(record), { flag: 'wx', mode: 0o644 })
  await chmod(join(building, RECORD_FILE), 0o644)
  signal.throwIfAborted()
  const folder = versionFolder(context, agent, digest)
  // The same tarball under another version, whose record stays as it is.
  if ((await lstat(folder).catch(nullIfMissing)) !== null) throw new Error('it has the same content as another version')
  await renameDurably(building, folder)
  return record
}

/** Makes bin/<agent>, which is the program in every sandbox. */
async function linkProgram(folder: string, agent: AgentName): Promise<void> {
  const { program } = platformPackage(agent)
  const info = await lstat(join(folder, program)).catch(nullIfMissing)
  if (!info?.isFile()) throw new Error(`the package has no program ${program}`)
  await chmod(join(folder, program), 0o755)
  const link = join('bin', agent)
  if (link === program) return
  await folderForAll(join(folder, dirname(link)))
  await symlink(relative(dirname(link), program), join(folder, link))
}

/** SECURITY: a sandbox that is within its disk limit loses data if the host's disk is full when it writes. */
function spaceCheck(context: AgentContext): (bytes: number) => Promise<void> {
  let unchecked = CHECK_INTERVAL
  return async bytes => {
    unchecked += bytes
    if (unchecked < CHECK_INTERVAL) return
    unchecked = 0
    const [free, reserve] = await Promise.all([freeBytes(context.dataDir), reserveBytes(context)])
    if (free < reserve) throw hostFull()
  }
}

function failed(agent: AgentName, version: string, error: unknown): SandglassError {
  if (error instanceof SandglassError) return error
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'ENOSPC' || code === 'EDQUOT') return hostFull(error)
  return new SandglassError(
    'AGENT_INSTALL_FAILED',
    { agent, version, why: message || code || 'connection failed' },
    { cause: error },
  )
}

const hostFull = (cause?: unknown) =>
  new SandglassError(
    'HOST_FULL',
    { what: 'the disk of the data folder has no space left for the program of an agent' },
    { cause },
  )
