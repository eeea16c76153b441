import { type SandboxClient, SandglassError } from '@sandglass/sdk'
import type { Context } from '../../command.ts'
import { pull } from './pull.ts'

/** Pulls an image that is not in the store, so that who waits for a session sees what it waits for. */
export async function bringImage(client: SandboxClient, reference: string, context: Context): Promise<void> {
  if (reference === 'host') return
  try {
    await client.images.get(reference)
  } catch (error) {
    if (!(error instanceof SandglassError) || !error.is('IMAGE_NOT_FOUND')) throw error
    await pull(client, reference, context)
  }
}
