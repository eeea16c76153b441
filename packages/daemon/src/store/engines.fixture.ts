// For tests that run on both engines.
import { join } from 'node:path'
import { newId } from '@sandglass/contract'
import { onTestFinished } from 'vitest'
import { temporaryFolder } from '../testing/daemon.fixture.ts'
import { mariadbFixture } from './engines/mariadb.fixture.ts'
import { openStore, type Store, type StoreLocation } from './open.ts'
import { DEFAULT_TENANT, type SessionRow } from './tables.ts'

export const ENGINES = ['sqlite', 'mariadb'] as const

/** The place of an empty database. */
export async function locationFixture(engine: StoreLocation['engine']): Promise<StoreLocation> {
  if (engine === 'mariadb') return { engine, ...(await mariadbFixture()) }
  return { engine, path: join(await temporaryFolder(), 'x.db') }
}

export async function openedStore(location: StoreLocation): Promise<Store> {
  const db = await openStore(location)
  onTestFinished(() => db.destroy())
  return db
}

export const storeFixture = async (engine: StoreLocation['engine']): Promise<Store> => openedStore(await locationFixture(engine))

export function sessionRow(changes: Partial<SessionRow> = {}): SessionRow {
  const id = newId('sess_')
  const name = `n-${id.slice(5)}`
  const base: SessionRow = {
    id,
    tenant: DEFAULT_TENANT,
    name,
    live_name: name,
    template_id: 'tmpl_default',
    image: 'host',
    image_id: null,
    backend: 'oci',
    runtime: null,
    nested_virt: 0,
    mounts: '[]',
    container_id: null,
    status: 'running',
    is_final: 0,
    reason: 'started',
    error_message: null,
    limit_hit: null,
    resizing: null,
    mode: 'ephemeral',
    agent_id: null,
    cwd: '/workspace',
    cpu_cores: 0.5,
    memory_mb: 512,
    disk_mb: 1024,
    pids_limit: 256,
    network: 'none',
    policies: '[]',
    policy_mode: null,
    secrets: '[]',
    agents: '[]',
    agent_packages: '[]',
    agent: null,
    prompt: null,
    ca_fingerprint: null,
    warnings: '[]',
    readonly_rootfs: 1,
    unenforced: '[]',
    env_names: '[]',
    env_sealed: null,
    labels: '{}',
    ttl_seconds: 60,
    on_expiry: 'end',
    timeout_sec: null,
    created_at: 1000,
    started_at: null,
    last_activity_at: 1000,
    expires_at: null,
    terminated_at: null,
    delete_at: null,
  }
  const made = { ...base, ...changes }
  return { ...made, live_name: made.is_final ? null : made.name }
}
