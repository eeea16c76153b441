import { posix } from 'node:path'
import { usage } from '../parser/parse.ts'
import { type Copied, type Copying, namedBelow, type Remote } from './copying.ts'
import { relayTar } from './read-tar.ts'
import { look, lookAtSource, targetOf } from './remote.ts'

/** Copies a file or folder of one session into another, or elsewhere in the same one. The bytes pass through here and are kept nowhere. */
export async function copyBetween(from: Remote, to: Remote, copying: Copying): Promise<Copied> {
  const { progress, user } = copying
  const source = await lookAtSource(from, copying)
  const target = await targetOf(to, { path: from.path, isFolder: source.kind === 'folder' }, copying)
  progress.begin(from.path, source.kind === 'file' ? source.info.size : undefined)
  if (source.kind === 'file') {
    const mode = (Number.parseInt(source.info.mode, 8) & 0o777).toString(8).padStart(3, '0')
    const body = progress.through(await from.session.files.download(from.path, user))
    await to.session.files.upload(target.path, body, { ...user, ...(source.info.type === 'symlink' ? {} : { mode }) })
    return { entries: 1, target: target.path }
  }
  await refuseIntoItself({ ...from, path: source.real }, { ...to, path: target.path }, copying)
  const archive = await from.session.files.getArchive(from.path, { onUnreadable: 'skip', ...user })
  const { entries } = await relay(progress.through(archive), namedBelow(from.path, copying), body =>
    to.session.files.putArchive(target.path, body, { ...user, atomic: !target.exists }),
  )
  return { entries, target: target.path }
}

/** Passes the bytes of a tar to `put`. If both ends fail, throws the source's error, which caused the other. */
async function relay<Reply>(
  tar: AsyncIterable<Uint8Array>,
  copying: Copying,
  put: (body: ReadableStream<Uint8Array>) => Promise<Reply>,
): Promise<Reply> {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const writer = writable.getWriter()
  let [sourceFailure, isPutOver]: [unknown, boolean] = [undefined, false]
  const sending = relayTar(tar, piece => writer.write(piece), copying).then(
    () => writer.close(),
    async error => {
      if (!isPutOver) sourceFailure = error
      await writer.abort(error).catch(() => undefined) // the other side has ended already
    },
  )
  try {
    return await put(readable)
  } catch (error) {
    isPutOver = sourceFailure === undefined
    await writer.abort(error).catch(() => undefined)
    await sending.catch(() => undefined)
    throw sourceFailure ?? error
  } finally {
    await sending.catch(() => undefined)
  }
}

/** A folder that is copied into itself would never end. */
async function refuseIntoItself(from: Remote, to: Remote, copying: Copying): Promise<void> {
  const [source, target] = await Promise.all([from.session.refresh(), to.session.refresh()])
  if (source.id !== target.id) return
  const real = await realPath(to, copying)
  if (`${real}/`.startsWith(from.path === '/' ? '/' : `${from.path}/`))
    throw usage(`${from.path} cannot be copied into itself, as ${real}`)
}

/** Resolves the deepest existing folder and appends the missing names. */
async function realPath({ session, path }: Omit<Remote, 'name'>, copying: Copying): Promise<string> {
  const trimmed = path.replace(/(.)\/+$/, '$1')
  const found = await look({ session, path: trimmed }, copying)
  if (found) return found.kind === 'folder' ? found.real : found.info.path
  return posix.join(await realPath({ session, path: posix.dirname(trimmed) }, copying), posix.basename(trimmed))
}
