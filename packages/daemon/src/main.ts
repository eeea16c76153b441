#!/usr/bin/env node
// The program of the daemon: `serve` (the default) and `doctor`. Only this file reads the environment and the arguments.
import { statSync } from 'node:fs'
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SandglassError } from '@sandglass/contract'
import { CONFIG_KEYS } from './config/keys.ts'
import { type Loaded, loadConfig } from './config/load.ts'
import { printedConfig } from './config/print.ts'
import { diskPolicy } from './data-dir/disk-policy.ts'
import { findRunner, missingProgram } from './runner-binary.ts'
import { tellSystemdReady } from './systemd-ready.ts'

const NODE_NEEDED = 24
const STOP_MS = 5000
const SERVE_HELP = '`sandglass help serve` lists the flags'
const RUNNER = findRunner()

enableCache(process.env.HOME)
main(process.argv.slice(2)).catch(fail)

async function main(argv: string[]): Promise<void> {
  // better-sqlite3 crashes without a message on an older Node, so nothing that loads it is imported before this check.
  if (Number(process.versions.node.split('.')[0]) < NODE_NEEDED)
    throw new SandglassError('USAGE', { issue: `Node ${NODE_NEEDED} or later is needed; this is ${process.version}` })
  const [command, args] = argv[0] === undefined || argv[0].startsWith('-') ? ['serve', argv] : [argv[0], argv.slice(1)]
  if (command !== 'serve' && command !== 'doctor')
    throw new SandglassError('USAGE', { issue: `no command ${command}: serve or doctor` })
  const { flags, isPrint, isJson } = parseFlags(args)
  const loaded = loadConfig({
    flags,
    env: process.env,
    ...(process.env.HOME ? { home: process.env.HOME } : {}),
    userId: process.geteuid?.() ?? 0,
  })
  if (isPrint) {
    process.stdout.write(`${JSON.stringify(printedConfig(loaded), null, 2)}\n`)
    return
  }
  await enterUserNamespace(loaded)
  if (command === 'doctor') await doctor(loaded, isJson)
  else await serve(loaded)
}

function parseFlags(args: string[]): { flags: Record<string, string[]>; isPrint: boolean; isJson: boolean } {
  const keys = Object.fromEntries(
    ['config', ...CONFIG_KEYS.map(key => key.flag)].map(flag => [flag, { type: 'string', multiple: true } as const]),
  )
  const { values, tokens } = parseArgs({
    args,
    options: { ...keys, 'print-config': { type: 'boolean' }, json: { type: 'boolean' } },
    strict: false,
    tokens: true,
  })
  const flags: Record<string, string[]> = {}
  for (const token of tokens) {
    if (token.kind === 'positional')
      throw new SandglassError('USAGE', {
        issue: `unexpected argument ${token.value}: keys are given as --key value`,
        next: SERVE_HELP,
      })
    if (token.kind !== 'option' || token.name === 'print-config' || token.name === 'json') continue
    if (token.value === undefined && token.name in keys)
      throw new SandglassError('USAGE', { issue: `--${token.name} needs a value`, next: SERVE_HELP })
    // An unknown flag is passed on: the configuration refuses it and names the nearest one.
    flags[token.name] = [...(flags[token.name] ?? []), token.value ?? '']
  }
  return { flags, isPrint: values['print-config'] === true, isJson: values.json === true }
}

/** For an ordinary user, executes this program again inside a user namespace. Where that is impossible, the backend reports it. */
async function enterUserNamespace({ dataDir }: Loaded): Promise<void> {
  const { userNamespaceArgv, userNamespaceProblem } = await import('./backends/oci/users/enter-userns.ts')
  const argv = userNamespaceArgv([process.execPath, ...process.execArgv, ...process.argv.slice(1)], dataDir, RUNNER.path)
  if (argv?.[0] === undefined || userNamespaceProblem() !== null) return
  process.execve?.(argv[0], argv, process.env as Record<string, string>)
}

async function serve(loaded: Loaded): Promise<void> {
  const [{ startDaemon }, { createLogger }] = await Promise.all([import('./daemon.ts'), import('./log.ts')])
  const log = createLogger(loaded.config.log_level)
  // A signal during the start takes effect after the start, so that nothing is left incomplete.
  const asked = new Promise<string>(resolve => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal))
  })
  const daemon = await startDaemon({ loaded, backends: dataDir => openBackends(loaded, dataDir), log })
  await tellSystemdReady(process.env.NOTIFY_SOCKET).catch((error: Error) => log.warn({ error }, 'could not notify systemd'))
  const signal = await asked
  log.info({ signal }, 'stopping')
  setTimeout(() => process.exit(0), STOP_MS - 500).unref()
  await daemon.close()
  process.exit(0)
}

async function doctor(loaded: Loaded, isJson: boolean): Promise<void> {
  const { runChecks, formatReport, withTemporaryDataDir } = await import('./doctor/doctor.ts')
  const report = await withTemporaryDataDir(loaded.dataDir, async folder =>
    // No backend can be opened without its programs, so the report is about those alone.
    runChecks({ loaded, backends: missingProgram(RUNNER) === null ? await openBackends(loaded, folder) : [], runner: RUNNER }),
  )
  process.stdout.write(isJson ? `${JSON.stringify(report, null, 2)}\n` : formatReport(report))
  process.exitCode = report.ok ? 0 : 3
}

async function openBackends({ config }: Loaded, dataDir: string) {
  const missing = missingProgram(RUNNER)
  if (missing !== null)
    throw new SandglassError('BACKEND_UNAVAILABLE', { backend: 'of any kind', why: `${missing} is missing; ${RUNNER.fix}` })
  const [{ openOci }, { openDocker }, { openMicrovm }] = await Promise.all([
    import('./backends/oci/backend.ts'),
    import('./backends/docker/backend.ts'),
    import('./backends/microvm/backend.ts'),
  ])
  const { oci, docker, microvm } = config.backends
  const runnerPath = RUNNER.path
  const { api_endpoint: endpoint, tls_ca: tlsCa, tls_cert: tlsCert, tls_key: tlsKey } = docker
  // In the order that `auto` tries them.
  return [
    await openOci({
      dataDir,
      runtime: oci.runtime,
      runtimes: oci.runtimes,
      runnerPath,
      disk: diskPolicy(config, 'oci'),
    }),
    openDocker({ dataDir, runnerPath, endpoint, tlsCa, tlsCert, tlsKey, runtimes: docker.runtimes }),
    openMicrovm({
      dataDir,
      runnerPath,
      qemu: microvm.qemu,
      kernel: microvm.kernel,
      accel: microvm.accel,
      shareProto: microvm.share_proto,
      diskFormat: microvm.disk_format,
      bridge: microvm.bridge ?? null,
      extraArgs: microvm.qemu_extra_args,
      disk: diskPolicy(config, 'microvm'),
    }),
  ]
}

/**
 * SECURITY: cached code is executed as it is. Node's default is a folder in /tmp, where another user may have placed files; the same holds for
 * the home of another user, as under sudo.
 */
function enableCache(home: string | undefined): void {
  if (home && isOurs(home)) enableCompileCache(join(home, '.cache', 'sandglass', 'compiled'))
}

function isOurs(folder: string): boolean {
  try {
    return statSync(folder).uid === process.geteuid?.()
  } catch {
    return false // absent or not accessible
  }
}

/** Prints the message and the next step on stderr; with --json the error as JSON. */
function fail(error: unknown): void {
  const failure =
    error instanceof SandglassError
      ? error
      : new SandglassError('INTERNAL', { message: error instanceof Error ? error.stack : String(error) }, { cause: error })
  const text = `sandglass: ${failure.message}\n${failure.hint ? `  next: ${failure.hint}\n` : ''}`
  process.stderr.write(process.argv.includes('--json') ? `${JSON.stringify({ error: failure.toWire() })}\n` : text)
  process.exit(failure.exitCode)
}
