// Files of a session.
import { z } from 'zod'
import { LIMITS } from '../tables/limits.ts'
import { Path, queryBool, queryInt, Timestamp, User } from './primitives.ts'

const Mode = z
  .string()
  .regex(/^0?[0-7]{3}$/, 'must be octal, like 644')
  .describe('permission bits in octal')

/** The user whose permissions a file call has. */
const user = User.optional().describe('sandbox when absent; root reaches the whole sandbox except /proc and /sys')

export const WriteRequest = z
  .strictObject({
    path: Path,
    text: z.string().optional(),
    content_base64: z.base64().optional(),
    mode: Mode.optional(),
    make_parents: z.boolean().optional().describe('create missing parent directories; true when absent'),
    sync: z.boolean().optional().describe('true: answer after the data is on disk'),
    user,
  })
  .refine(w => (w.text === undefined) !== (w.content_base64 === undefined), 'exactly one of text and content_base64 is needed')
export type WriteRequest = z.infer<typeof WriteRequest>

export const ReadQuery = z.strictObject({
  path: Path,
  max_bytes: queryInt(0, LIMITS.fs_read_bytes.max).optional(),
  offset: queryInt(0, Number.MAX_SAFE_INTEGER).optional(),
  user,
})
export const ReadReply = z.object({ path: z.string(), content_base64: z.string(), size: z.int(), truncated: z.boolean() })

export const FilesPutQuery = z.strictObject({
  path: Path,
  mode: Mode.optional(),
  make_parents: queryBool.optional(),
  sync: queryBool.optional(),
  user,
})
export const PathQuery = z.strictObject({ path: Path, user })
export const WriteReply = z.object({ ok: z.literal(true), path: z.string(), size: z.int() })

export const FileInfo = z.object({
  name: z.string().describe('bytes that are not UTF-8 become U+FFFD; name_base64 has the original bytes'),
  name_base64: z.string().optional(),
  path: z.string(),
  type: z.enum(['file', 'directory', 'symlink', 'other']),
  size: z.int(),
  mode: z.string(),
  uid: z.int(),
  gid: z.int(),
  modified_at: Timestamp,
  target: z.string().optional().describe('where a symbolic link points'),
})
export type FileInfo = z.infer<typeof FileInfo>

export const ListQuery = z.strictObject({
  path: Path.optional(),
  recursive: queryBool.optional(),
  max_entries: queryInt(1, LIMITS.dir_entries.max).optional(),
  user,
})
export const ListReply = z.object({ path: z.string(), items: z.array(FileInfo), truncated: z.boolean() })
export const MkdirRequest = z.strictObject({ path: Path, parents: z.boolean().optional(), mode: Mode.optional(), user })
export const MoveRequest = z.strictObject({ from: Path, to: Path, overwrite: z.boolean().optional(), user })
export const RemoveRequest = z.strictObject({ path: Path, recursive: z.boolean().optional(), user })

export const SearchQuery = z.strictObject({
  path: Path.optional(),
  name: z.string().max(256).optional().describe('shell pattern for file names, like *.py'),
  text: z.string().max(1024).optional().describe('text that a line must contain'),
  regex: queryBool.optional().describe('text is a regular expression (RE2)'),
  ignore_case: queryBool.optional(),
  max_matches: queryInt(1, LIMITS.search_matches.max).optional(),
  user,
})
export const SearchReply = z.object({
  items: z.array(z.object({ path: z.string(), line: z.int().optional(), text: z.string().optional() })),
  truncated: z.boolean(),
})

export const WatchQuery = z.strictObject({ path: Path.optional(), recursive: queryBool.optional(), user })
export const WatchEvent = z.object({
  type: z.enum(['created', 'modified', 'removed', 'moved', 'overflow']),
  path: z.string(),
  from: z.string().optional(),
})

export const ArchivePutQuery = z.strictObject({
  path: Path.optional(),
  atomic: queryBool
    .optional()
    .describe(
      'true: create the directory after the whole archive is unpacked; FILE_EXISTS if it exists; a failure leaves nothing',
    ),
  user,
})
export const ArchiveGetQuery = z.strictObject({
  path: Path,
  on_unreadable: z
    .enum(['fail', 'skip'])
    .optional()
    .describe(
      'what to do with an entry that cannot be read: fail (the default) refuses the call; skip replaces the entry by a global pax header with the comment "unreadable: NAME: REASON"',
    ),
  user,
})
export const ArchiveReply = z.object({ ok: z.literal(true), entries: z.int(), bytes: z.int() })
