// The daemon as one value, opened from a configuration and backends. Closing it frees everything in memory; sessions keep running.
import { readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import { join } from 'node:path'
import { agentState } from './agents/packages/context.ts'
import { removePartialInstalls } from './agents/packages/installed.ts'
import { HeldWriter, reconcileHeld } from './approvals/held.ts'
import type { Backend } from './backends/backend.ts'
import { removeUnplaced } from './backends/machine/session-folders.ts'
import type { Loaded } from './config/load.ts'
import { type DataDir, openDataDir } from './data-dir/open.ts'
import { type EgressState, egressState } from './egress/context.ts'
import { addEgressMetrics } from './egress/metrics.ts'
import type { Api } from './http/api.ts'
import { createApp } from './http/app.ts'
import { type Listeners, listen, parseAddresses } from './http/listen.ts'
import { Upgrades } from './http/streams/upgrade.ts'
import { imageState, openImages } from './images/context.ts'
import { KeyedMutex } from './lib/keyed-mutex.ts'
import type { Logger } from './log.ts'
import { openSecretKey } from './secrets/key-file.ts'
import { storeConfiguredKeys } from './secrets/stored.ts'
import { Changes } from './sessions/changes.ts'
import type { SessionContext } from './sessions/context.ts'
import { flushLeases, Leases } from './sessions/lease/lease.ts'
import { createReaper } from './sessions/lease/reaper.ts'
import { Preparations } from './sessions/lifecycle/prepare-image.ts'
import { reconcile } from './sessions/lifecycle/reconcile.ts'
import { DiskWatch } from './sessions/limits/disk-watch.ts'
import { openFilesWatch } from './sessions/limits/open-files.ts'
import { LiveSessions } from './sessions/live.ts'
import { createMetrics } from './sessions/metrics.ts'
import { pruneAuthorities } from './sessions/network/authority.ts'
import { removeOrphanedLogs, syncEgress, usesEgress } from './sessions/network/join-egress.ts'
import { openStore, type Store } from './store/open.ts'
import { taskContext } from './tasks/context.ts'
import { openTasks } from './tasks/open.ts'
import { closeTasks } from './tasks/queue.ts'

/** How long requests under way may take after a shutdown was requested. */
const GRACE_MS = 3000

export type Daemon = {
  /** http://127.0.0.1:8080, unix:/path */
  addresses: readonly string[]
  context: SessionContext
  close(): Promise<void>
}

export type DaemonOptions = {
  loaded: Loaded
  /** Called with the data folder once it is locked; in the order that `auto` tries them. */
  backends: (dataDir: string) => Promise<readonly Backend[]> | readonly Backend[]
  log: Logger
  now?: () => number
}

export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const { loaded, log } = options
  const addresses = parseAddresses(loaded.config.listen, loaded.dataDir, loaded.config.api_key !== undefined)
  const dataDir = openDataDir(loaded.dataDir)
  try {
    const closing = new AbortController()
    const context = await openContext(options, dataDir, closing.signal)
    const tasks = taskContext(context)
    const api: Api = { context, tasks, apiKey: loaded.config.api_key ?? dataDir.apiKey(), version: version() }
    const stored = await storeConfiguredKeys(context)
    if (stored.length > 0) log.info({ secrets: stored }, 'keys of the configuration stored as secrets')
    const { removals } = await reconcile(context)
    await recoverEgress(context)
    await openImages(context)
    await removePartialInstalls(context)
    const diskWatch = new DiskWatch(context)
    diskWatch.start()
    context.reaper.start()
    context.leases.onDue(() => flush(context))
    const openFiles = openFilesWatch(context)
    openFiles?.start(0)
    const upgrades = new Upgrades(log)
    const app = createApp(api, upgrades)
    await app.ready()
    const listeners = await listen(addresses, (request, response) => app.routing(request, response), upgrades)
    context.reaper.wakeIn(0)
    const taskSweep = openTasks(tasks)
    log.info({ addresses: listeners.addresses, version: api.version, pid: process.pid }, 'listening')
    return {
      addresses: listeners.addresses,
      context,
      async close() {
        closing.abort()
        upgrades.closeAll()
        await closeListeners(listeners)
        await app.close()
        await Promise.all([removals, closeTasks(tasks), taskSweep.stop()])
        await Promise.all([diskWatch.stop(), openFiles?.stop()])
        await closeContext(context)
        dataDir.lock.release()
        log.info('stopped; sessions keep running')
      },
    }
  } catch (error) {
    dataDir.lock.release()
    throw error
  }
}

async function openContext(
  { loaded, backends, log, now = Date.now }: DaemonOptions,
  dataDir: DataDir,
  closing: AbortSignal,
): Promise<SessionContext> {
  const store = await openStore({ engine: 'sqlite', path: loaded.storePath })
  const secretKey = await openKey(store, loaded, dataDir)
  await removeUnplaced(join(dataDir.path, 'sessions'))
  const context: SessionContext = {
    config: loaded.config,
    store,
    backends: new Map((await backends(dataDir.path)).map(backend => [backend.name, backend])),
    dataDir: dataDir.path,
    images: imageState(dataDir.path),
    agents: agentState(),
    secretKey,
    live: new LiveSessions(),
    leases: new Leases(),
    reaper: createReaper(() => context),
    mutex: new KeyedMutex(),
    changes: new Changes(),
    held: new HeldWriter(() => context),
    approvalChanges: new Changes(),
    egress: openEgress(() => context, { dataDir: dataDir.path, config: loaded.config, log, now }),
    trusted: () => context.egress.authorities.newest(),
    starting: new Map(),
    preparations: new Preparations(),
    promised: new Map(),
    reservedSpace: dataDir.reservedSpace,
    leftovers: new Map(),
    closing,
    metrics: createMetrics(store),
    log,
    now,
  }
  addEgressMetrics(context.metrics.registry, () => context.egress.supervisor)
  return context
}

function openEgress(
  context: () => SessionContext,
  options: Pick<SessionContext, 'dataDir' | 'config' | 'log' | 'now'>,
): EgressState {
  return egressState({
    ...options,
    isNeeded: () => context().live.all().some(usesEgress),
    onConnected: async control => {
      await reconcileHeld(context(), control.hello.held)
      await syncEgress(context(), control)
    },
    onEvent: ({ held }) => context().held.add(held),
  })
}

/** Sessions that run go on with the egress process that they had. */
async function recoverEgress(context: SessionContext): Promise<void> {
  const { supervisor } = context.egress
  await supervisor.recover()
  if (!supervisor.isConnected && !context.live.all().some(usesEgress)) await reconcileHeld(context, [])
  await pruneAuthorities(context)
  await removeOrphanedLogs(context)
}

async function openKey(store: Store, { storePath }: Loaded, { path, reservedSpace }: DataDir): Promise<Buffer> {
  try {
    return await reservedSpace.useFor(() => openSecretKey(join(path, 'secret.key'), store, storePath))
  } catch (error) {
    await store.destroy()
    throw error
  }
}

function flush(context: SessionContext): void {
  flushLeases(context).catch(err => context.log.error({ err }, 'leases could not be written'))
}

/** Idle connections close at once; requests under way are cut after the grace. */
async function closeListeners({ servers, locks }: Listeners): Promise<void> {
  await Promise.all(servers.map(closeServer))
  for (const lock of locks) lock.release()
}

function closeServer(server: Server): Promise<void> {
  return new Promise(resolve => {
    const cut = setTimeout(() => server.closeAllConnections(), GRACE_MS)
    server.close(() => {
      clearTimeout(cut)
      resolve()
    })
    server.closeIdleConnections()
  })
}

/** Closes the connections to machines; the machines keep running. */
async function closeContext(context: SessionContext): Promise<void> {
  for (const abort of context.starting.values()) abort.abort(new Error('the daemon is stopping'))
  await context.reaper.stop()
  context.leases.stop()
  await flushLeases(context)
  for (const relay of context.egress.relays.values()) relay.close()
  await context.egress.supervisor.close()
  await context.held.settled()
  for (const { link } of context.live.all()) link.close()
  await Promise.all([...context.backends.values()].map(backend => backend.close?.()))
  await context.images.pruning
  await context.store.destroy()
}

function version(): string {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
  return version
}
