// Reads and writes the configuration file with its comments.
import { closeSync, fchmodSync, fsyncSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { SandglassError, yamlIssue } from '@sandglass/contract/tables'
import { type Document, parseDocument } from 'yaml'
import type { Environment } from '../command.ts'
import { readConfigFile } from '../daemon/settings.ts'

export type ConfigDocument = { path: string; document: Document }

/** The configuration file with its comments, or an empty document. */
export async function readConfigDocument(flag: string | undefined, env: Environment): Promise<ConfigDocument> {
  const path = resolve(flag ?? env.SANDGLASS_CONFIG ?? join(env.HOME || homedir(), '.sandglass', 'config.yaml'))
  const text = readConfigFile(path) ?? ''
  const document: Document = parseDocument(text)
  // SECURITY: messages of yaml quote the file, which holds keys, so they are not shown.
  if (document.errors.length > 0)
    throw new SandglassError('CONFIG_INVALID', { source: path, issue: yamlIssue(text, document.errors[0]) })
  if (document.contents === null) document.contents = document.createNode({})
  return { path, document }
}

export const writeConfigDocument = ({ path, document }: ConfigDocument): void => writePrivate(path, document.toString())

/** SECURITY: the file gets mode 0600 before a byte is written, and is renamed into place when it is complete. */
export function writePrivate(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const fresh = `${path}.new`
  const fd = openSync(fresh, 'w', 0o600)
  try {
    fchmodSync(fd, 0o600)
    writeSync(fd, text)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(fresh, path)
}
