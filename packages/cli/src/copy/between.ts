// `cp` from session to session.
import { posix } from 'node:path'
import { usage } from '../parser/parse.ts'
import { type CopyContext, type CopyResult, type RemotePath, withPathPrefix } from './copy-context.ts'
import { relayTar } from './read-tar.ts'
import { findRemote, requireRemote, resolveTarget } from './remote.ts'

/** Copies a file or folder from one session to another, or within one. The bytes are streamed through this process and not stored. */
export async function copyBetween(from: RemotePath, to: RemotePath, copy: CopyContext): Promise<CopyResult> {
  const { progress, user } = copy
  const source = await requireRemote(from, copy)
  const target = await resolveTarget(to, { path: from.path, isFolder: source.kind === 'folder' }, copy)
  progress.begin(from.path, source.kind === 'file' ? source.info.size : undefined)
  if (source.kind === 'file') {
    const mode = (Number.parseInt(source.info.mode, 8) & 0o777).toString(8).padStart(3, '0')
    const body = progress.through(await from.session.files.download(from.path, user))
    await to.session.files.upload(target.path, body, { ...user, ...(source.info.type === 'symlink' ? {} : { mode }) })
    return { entries: 1, target: target.path }
  }
  await refuseIntoItself({ ...from, path: source.real }, { ...to, path: target.path }, copy)
  const archive = await from.session.files.getArchive(from.path, { onUnreadable: 'skip', ...user })
  const { entries } = await uploadTar(progress.through(archive), withPathPrefix(from.path, copy), body =>
    to.session.files.putArchive(target.path, body, { ...user, atomic: !target.exists }),
  )
  return { entries, target: target.path }
}

/** Streams a tar into `put`. If both ends fail, throws the error of the source, which caused the other one. */
async function uploadTar<Reply>(
  tar: AsyncIterable<Uint8Array>,
  copy: CopyContext,
  put: (body: ReadableStream<Uint8Array>) => Promise<Reply>,
): Promise<Reply> {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const writer = writable.getWriter()
  let [sourceFailure, isPutOver]: [unknown, boolean] = [undefined, false]
  const sending = relayTar(tar, piece => writer.write(piece), copy).then(
    () => writer.close(),
    async error => {
      if (!isPutOver) sourceFailure = error
      await writer.abort(error).catch(() => undefined) // the other end has already failed
    },
  )
  try {
    return await put(readable)
  } catch (error) {
    isPutOver = sourceFailure === undefined
    await writer.abort(error).catch(() => undefined) // the stream may be closed already
    await sending.catch(() => undefined) // sourceFailure has the error
    throw sourceFailure ?? error
  } finally {
    await sending.catch(() => undefined) // an error of the target has been thrown
  }
}

/** The copy of a folder into itself would never end. */
async function refuseIntoItself(from: RemotePath, to: RemotePath, copy: CopyContext): Promise<void> {
  const [source, target] = await Promise.all([from.session.refresh(), to.session.refresh()])
  if (source.id !== target.id) return
  const real = await realPath(to, copy)
  if (`${real}/`.startsWith(from.path === '/' ? '/' : `${from.path}/`))
    throw usage(`${from.path} cannot be copied into itself, as ${real}`)
}

/** Resolves the deepest existing folder and appends the missing names. */
async function realPath({ session, path }: Omit<RemotePath, 'name'>, copy: CopyContext): Promise<string> {
  const trimmed = path.replace(/(.)\/+$/, '$1')
  const found = await findRemote({ session, path: trimmed }, copy)
  if (found) return found.kind === 'folder' ? found.real : found.info.path
  return posix.join(await realPath({ session, path: posix.dirname(trimmed) }, copy), posix.basename(trimmed))
}
