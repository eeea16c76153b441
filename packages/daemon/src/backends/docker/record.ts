// config.json of a session's folder, mode 0600: what the next daemon needs to find and speak to the machine.
// SECURITY: it holds the token. A session's environment is in no file: it goes to the runner on its stdin.
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
  /** The image as the user named it. */
  image: z.string(),
  /** The runtime of the engine's that it asked for. Sessions of before there was a choice have none. */
  runtime: z.string().nullable().default(null),
  /** False until its limits were read back, where that is done: one that is found so is not used. */
  isChecked: z.boolean().default(true),
  unenforced: z.array(z.enum(['cpu', 'memory', 'pids', 'disk'])),
})
export type DockerRecord = z.infer<typeof DockerRecord>

export const writeRecord = (folder: string, record: DockerRecord): Promise<void> => placeRecord(folder, record)

export const readRecord = (folder: string): Promise<DockerRecord | null> => readJson(join(folder, 'config.json'), DockerRecord)
