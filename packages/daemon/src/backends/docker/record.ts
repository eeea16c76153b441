// The record of a machine: config.json in its session's folder, mode 0600. The next daemon needs it to find and reach the machine.
// SECURITY: it holds the tokens. A session's environment is in no file: the runner reads it from its stdin.
import { join } from 'node:path'
import { z } from 'zod'
import { readJson } from '../../lib/json-file.ts'
import { placeRecord } from '../machine/session-folders.ts'

const DockerRecord = z.object({
  backend: z.literal('docker'),
  version: z.literal(1),
  id: z.string(),
  name: z.string(),
  token: z.string(),
  /** The token of the egress endpoint. Null for a machine without one. */
  egressToken: z.string().nullable().default(null),
  /** The image as the user named it. */
  image: z.string(),
  /** The engine's runtime that the session asked for. Records of earlier versions have none. */
  runtime: z.string().nullable().default(null),
  /** False until the limits have been read back. A machine that the next daemon finds with false is ended. */
  isChecked: z.boolean().default(true),
  unenforced: z.array(z.enum(['cpu', 'memory', 'pids', 'disk'])),
})
export type DockerRecord = z.infer<typeof DockerRecord>

export const writeRecord = (folder: string, record: DockerRecord): Promise<void> => placeRecord(folder, record)

export const readRecord = (folder: string): Promise<DockerRecord | null> => readJson(join(folder, 'config.json'), DockerRecord)
