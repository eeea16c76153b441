// Makes an image ready to start from. Those who need the same image wait for one piece of work.
import type { Backend } from '../../backends/backend.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import { rootImage } from '../placement/root-image.ts'

export async function prepareImage(
  context: SessionContext,
  backend: Backend,
  { image, image_id }: Pick<SessionRow, 'image' | 'image_id'>,
  signal: AbortSignal,
): Promise<void> {
  const root = await rootImage(context, { image, image_id })
  const about = { backend: backend.name, image, startedAt: context.now() }
  const prepare = (stop: AbortSignal, say: (step: string) => void) => backend.prepare(root, stop, say)
  await context.preparations.join(`${backend.name} ${image_id ?? 'host'}`, about, prepare, signal)
  signal.throwIfAborted()
}
