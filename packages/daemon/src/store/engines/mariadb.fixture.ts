// For tests: one private MariaDB server per test run. The first test file that needs it starts it; it ends with the test run.
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@sandglass/contract'
import { createConnection } from 'mysql2/promise'
import { expect, onTestFinished } from 'vitest'
import type { MariadbLocation } from './mariadb.ts'

/** An empty database. */
export async function mariadbFixture(): Promise<MariadbLocation> {
  const socketPath = await serverSocket()
  const database = newId('test_')
  await run(socketPath, `create database ${database}`)
  onTestFinished(() => run(socketPath, `drop database ${database}`))
  return { socketPath, user: 'root', database }
}

async function run(socketPath: string, statement: string): Promise<void> {
  const connection = await createConnection({ socketPath, user: 'root' })
  await connection.query(statement)
  await connection.end()
}

/** Test files run in processes of their own, whose parent is the test run. The folder is named after the parent and its start time. */
async function serverSocket(): Promise<string> {
  const startTime = readFileSync(`/proc/${process.ppid}/stat`, 'utf8').split(' ').at(21)
  const folder = join(tmpdir(), `sg-mariadb-${process.ppid}-${startTime}`)
  const socketPath = join(folder, 'socket')
  if (claim(folder)) start(folder, socketPath)
  await expect.poll(() => existsSync(socketPath), { timeout: 20_000, message: `see ${folder}/log` }).toBe(true)
  return socketPath
}

/** True in the one process that created the folder. */
function claim(folder: string): boolean {
  try {
    mkdirSync(folder, { mode: 0o700 })
    return true
  } catch (error) {
    if ((error as { code?: string }).code === 'EEXIST') return false
    throw error
  }
}

/** Without grant tables the server needs no installation. The folder is private, and there is no TCP port. */
function start(folder: string, socketPath: string): void {
  mkdirSync(join(folder, 'data'))
  const server = [
    'mariadbd --no-defaults --skip-grant-tables --skip-networking --skip-log-bin',
    `--user=$(id -un) --datadir=${folder}/data --tmpdir=${folder} --socket=${socketPath} --pid-file=${folder}/pid`,
    '--innodb-flush-method=nosync --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --innodb-log-file-size=8M --innodb-buffer-pool-size=16M',
  ].join(' ')
  // The shell outlives this process and ends the server when the test run is over, however that ended.
  const script = `PATH=$PATH:/usr/sbin; ${server} & tail --pid=${process.ppid} -f /dev/null; kill -9 $!; wait $!; rm -rf ${folder}`
  const log = openSync(join(folder, 'log'), 'w')
  spawn('sh', ['-c', script], { detached: true, stdio: ['ignore', log, log] }).unref()
}
